// espalier log: how checkpoints depend on each other, for whoever looks after a folder of them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/escaped.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

struct LogOptions {
  CommonOptions common;
  std::vector<std::string> files;
};

// How the chunks of a checkpoint are stored.
struct Makeup {
  std::uint64_t here = 0;
  std::uint64_t referred = 0;
  std::uint64_t patched = 0;
  std::size_t layers = 0;  // of patches, at most
  std::vector<const FileEntry*> missing;
};

Makeup makeup_of(const Catalog& catalog) {
  Makeup makeup;
  const auto chunks = catalog.tables().chunks;
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    const std::size_t layers = catalog.bases(i).size();
    makeup.layers = std::max(makeup.layers, layers);
    if (layers > 0) {
      ++makeup.patched;
    } else if (chunks[i].file == 0) {
      ++makeup.here;
    } else {
      ++makeup.referred;
    }
  }
  for (const FileEntry& file : catalog.files()) {
    if (file.problem) makeup.missing.push_back(&file);
  }
  return makeup;
}

void print_text(Output& out, const std::string& name, const CheckpointFile& file,
                const Makeup& makeup) {
  const auto& digest = file.checkpoint().catalog().tree_digest();
  out.print("{:>10}  {:>7}  {:>8}  {:>7}  {:>6}  {:<12}  {}\n", format_size(file.source().size()),
            makeup.here, makeup.referred, makeup.patched, makeup.layers,
            digest ? to_hex(*digest).substr(0, 12) : std::string("-"), escaped(shown_name(name)));
  for (const FileEntry* entry : makeup.missing) {
    out.print("  {}: {}\n", out.colors().paint(Style::kDamage, to_string(entry->problem->code)),
              escaped(entry->name));
  }
}

void write_json(JsonWriter& json, const std::string& name, const CheckpointFile& file,
                const Makeup& makeup) {
  const auto& digest = file.checkpoint().catalog().tree_digest();
  json.begin_object();
  json.member("file", shown_name(name));
  json.key("digest");
  if (digest) {
    json.value(to_hex(*digest));
  } else {
    json.null();
  }
  json.member("bytes", file.source().size());
  json.member("chunks_here", makeup.here);
  json.member("chunks_referred", makeup.referred);
  json.member("chunks_patched", makeup.patched);
  json.member("layers", static_cast<std::uint64_t>(makeup.layers));
  json.key("missing");
  json.begin_array();
  for (const FileEntry* entry : makeup.missing) {
    json.begin_object();
    Error problem = *entry->problem;
    problem.file = entry->name;
    write_error_members(json, problem);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

Outcome run_log(const LogOptions& options, Output& out) {
  JsonWriter json(out);
  if (options.common.json) {
    begin_files(json);
  } else {
    out.print("{:>10}  {:>7}  {:>8}  {:>7}  {:>6}  {:<12}  {}\n", "size", "here", "referred",
              "patched", "layers", "digest", "file");
  }
  ExitCode worst = ExitCode::kOk;
  for (const std::string& name : options.files) {
    const auto file = open_file(name, options.common);
    if (!file) {
      // One that cannot be read does not hide the others.
      print_error(describe({name, file.error()}));
      worst = std::max(worst, exit_code(file.error().code));
      continue;
    }
    const Makeup makeup = makeup_of(file->checkpoint().catalog());
    if (!makeup.missing.empty()) worst = std::max(worst, ExitCode::kCheckFailed);
    if (options.common.json) {
      write_json(json, name, *file, makeup);
    } else {
      print_text(out, name, *file, makeup);
    }
  }
  if (options.common.json) end_files(json, out);
  return worst;
}

}  // namespace

void add_log(CLI::App& app, Action& action) {
  auto options = std::make_shared<LogOptions>();
  CLI::App* command = app.add_subcommand(
      "log",
      "Tell how checkpoints are stored: chunks here, in other files and patched, and what is "
      "missing");
  command->add_option("FILE", options->files, kCheckpointsHelp)->required()->expected(-1);
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier log run/*.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_log(*options, out); }; });
}

}  // namespace espalier::cli
