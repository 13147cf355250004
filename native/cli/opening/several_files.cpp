#include "cli/opening/several_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/escaped.h"
#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/resolve.h"
#include "espalier/read/resolve_patterns.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

bool exists_as_file(const std::string& name) {
  std::error_code error;
  return fs::is_regular_file(name, error);
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

// Whether a name ends as those of the files of some format do.
bool has_checkpoint_ending(const std::string& argument) {
  const std::string name = fs::path(argument).filename().string();
  const auto formats = all_formats();
  return std::any_of(formats.begin(), formats.end(),
                     [&](const FormatInfo* format) { return is_named_as(*format, name); });
}

// Whether an argument selects nodes of a checkpoint.
bool selects_nodes(const CheckpointFile& file, const std::string& argument) {
  auto patterns = parse_patterns(std::span(&argument, 1));
  if (!patterns) return false;
  resolve_patterns(*patterns, {file.state()});
  PatternStepper stepper(*patterns);
  return !match_nodes(file.state(), stepper).empty();
}

// The arguments, told apart.
struct FilesAndPatterns {
  std::vector<std::string> files;
  std::vector<std::string> patterns;
};

tl::expected<FilesAndPatterns, Failure> tell_apart(const std::string& first_file,
                                                   const std::vector<std::string>& arguments,
                                                   const CommonOptions& common) {
  FilesAndPatterns told{{first_file}, {}};
  std::optional<Result<CheckpointFile>> first;
  for (const std::string& argument : arguments) {
    const bool exists = exists_as_file(argument);
    // "ftp://host/x" is no pattern, and its message must not quote a password.
    const bool has_scheme = !check_scheme(argument);
    const bool is_by_ending = !exists && !is_url(argument) && !has_scheme;
    // Many folders are called "model", and so are many keys.
    if (is_by_ending && !has_checkpoint_ending(argument) && !is_folder(argument)) {
      told.patterns.push_back(argument);
      continue;
    }
    if (!first) first = open_file(first_file, common);
    if (is_by_ending && *first && selects_nodes(**first, argument)) {
      told.patterns.push_back(argument);
      continue;
    }
    if (exists && *first && resolve_plainly((*first)->state(), argument)) {
      return fail_about(argument,
                        {ErrorCode::kInvalidArgument, Error::kNoOffset, "",
                         fmt::format("this is a file here and a key path in {0}; write ./{1} for "
                                     "the file, or '{{{1}}}' for the nodes",
                                     shown_name(first_file), argument)});
    }
    told.files.push_back(argument);
  }
  return told;
}

}  // namespace

void add_file_or_pattern_arguments(CLI::App& command, std::vector<std::string>& arguments) {
  add_pattern_arguments(command, arguments)
      ->description(
          "Key paths, with * ** ? {a,b} [0-9]; a container stands for everything in it. Names of "
          "existing files, and URLs, are further checkpoints");
}

Outcome for_each_file(const std::string& first_file, const std::vector<std::string>& arguments,
                      const CommonOptions& common, Output& out, const OnFile& on_file,
                      const OnFailure& on_failure) {
  auto told = tell_apart(first_file, arguments, common);
  if (!told) return tl::unexpected<Failure>(std::move(told.error()));
  const auto& [files, patterns] = *told;
  JsonWriter json(out);
  const bool has_own_form = static_cast<bool>(on_failure);
  const bool is_json = common.json && !has_own_form;
  JsonWriter* const writer = is_json ? &json : nullptr;
  if (files.size() == 1 && !has_own_form) {
    auto outcome = on_file(files.front(), patterns, out, writer);
    if (outcome && is_json) out.put('\n');
    return outcome;
  }
  if (is_json) begin_files(json);
  ExitCode worst = ExitCode::kOk;
  bool has_printed = false;
  for (const std::string& file : files) {
    if (!is_json && !has_own_form) {
      // A title that turns out to have nothing below it does no harm, and the text is not held.
      out.print("{}{}:\n", std::exchange(has_printed, true) ? "\n" : "", escaped(shown_name(file)));
    }
    const auto outcome = on_file(file, patterns, out, writer);
    if (outcome) {
      worst = std::max(worst, *outcome);
      continue;
    }
    const Failure& failure = outcome.error();
    worst = std::max(worst, exit_code(failure.error.code));
    if (has_own_form) {
      on_failure(failure);
    } else if (is_json) {
      json.begin_object();
      json.member("file", shown_name(file));
      json.key("failure");
      json.begin_object();
      write_error_members(json, failure.error);
      json.end_object();
      json.end_object();
    }
    print_error(describe(failure));
  }
  if (is_json) end_files(json, out);
  return worst;
}

}  // namespace espalier::cli
