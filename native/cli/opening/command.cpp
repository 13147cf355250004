#include "cli/opening/command.h"

#include <string_view>

#include "cli/opening/key_maps.h"
#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/terminal/mapped_files.h"
#include "cli/terminal/text.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {

ExitCode exit_code(ErrorCode code) {
  if (code == ErrorCode::kOutOfMemory) return ExitCode::kMemory;
  const auto number = static_cast<unsigned>(code);
  if (number < 40) return ExitCode::kBadInput;
  return number < 60 ? ExitCode::kUsage : ExitCode::kIo;
}

std::string describe(const Failure& failure) {
  Error error = failure.error;
  if (error.file == failure.file) error.file.clear();  // The line begins with it.
  const std::string text = describe(error);
  return failure.file.empty() ? text : escaped(shown_name(failure.file)) + ": " + text;
}

std::string describe(const Error& error) {
  Error shown = error;
  shown.file = escaped(shown_name(error.file));
  // Such a message quotes what was typed, perhaps a URL with a password.
  const bool quotes_argument =
      error.code == ErrorCode::kInvalidPattern || error.code == ErrorCode::kInvalidKeyPath;
  shown.path = escaped(shortened(error.path, kMaxMentionBytes));
  shown.message = escaped(
      shortened(quotes_argument ? shown_name(error.message) : error.message, kMaxMessageBytes));
  return shown.describe();
}

void add_open_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--threads", options.threads, "Threads to use; 0 uses every CPU")
      ->type_name("N")
      ->check(CLI::Range(0u, 1024u).description(""))
      ->group(kReadingGroup);
  command
      .add_flag("--no-mmap", options.no_mmap,
                "Read the file instead of mapping it; safe if other programs change it meanwhile")
      ->group(kReadingGroup);
}

void add_read_options(CLI::App& command, CommonOptions& options) {
  add_open_options(command, options);
  command
      .add_flag("--nest", options.nest,
                "Split names at every dot: layers.0.weight becomes layers/0/weight")
      ->group(kReadingGroup);
}

void add_json_option(CLI::App& command, CommonOptions& options) {
  command.add_flag("--json", options.json, "Print one JSON document, for programs")
      ->group(kOutputGroup);
}

void add_quiet_option(CLI::App& command, CommonOptions& options, const std::string& what) {
  command.add_flag("-q,--quiet", options.quiet, "No " + what)->group(kOutputGroup);
}

CLI::Option* add_pattern_arguments(CLI::App& command, std::vector<std::string>& patterns) {
  return command
      .add_option("PATTERN", patterns,
                  "Key paths, with * ** ? {a,b} [0-9]; a container stands for everything in it")
      ->type_name("");
}

void set_examples(CLI::App& command, std::initializer_list<const char*> examples) {
  std::string lines;
  for (const char* example : examples) lines += std::string(lines.empty() ? "" : "\n") + example;
  command.footer(lines);
}

Result<void> check_file_name(const std::string& file, const char* stream) {
  if (file.empty()) return fail(ErrorCode::kInvalidArgument, "the file's name is empty");
  if (is_url(file) && std::string_view(stream) == "output") {
    return fail(ErrorCode::kInvalidArgument,
                "URLs are read, not written; write a file, and upload it");
  }
  if (file != "-") return {};
  return fail(
      ErrorCode::kInvalidArgument,
      std::string("standard ") + stream + " is not supported; write ./- if the file has that name");
}

Result<CheckpointFile> open_file(const std::string& file, const CommonOptions& options) {
  if (auto ok = check_file_name(file, "input"); !ok) return propagate(ok);
  OpenFileOptions open;
  open.access = options.no_mmap ? Access::kRead : Access::kMapped;
  open.threads = options.threads;
  open.nest = options.nest;
  if (!is_url(file)) {
    if (auto ok = check_scheme(file); !ok) return propagate(ok);
  }
  auto opened = is_url(file)      ? open_url(file, open)
                : options.no_mmap ? CheckpointFile::open(file, open)
                                  : open_mapped(file, open);
  if (!opened) return opened;
  if (!options.quiet) tell_step(file);
  options.kept->add_parts(file, opened->checkpoint().catalog());
  // What a map makes of a file has no notes, so a command cannot list them.
  const bool is_listed = options.code == CommonOptions::Code::kListed && options.map.names.empty();
  if (options.code != CommonOptions::Code::kSilent && !is_listed) {
    tell_code(shown_name(file), opened->checkpoint().catalog());
  }
  if (options.map.names.empty()) return opened;
  return open_through_map(*opened, options.map, open);
}

}  // namespace espalier::cli
