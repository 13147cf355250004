// espalier needs: the further files of checkpoints, for whoever copies or deletes files.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/escaped.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

struct NeedsOptions {
  CommonOptions common;
  std::vector<std::string> files;
  bool is_long = false;
};

// What a checkpoint has in one of its further files.
struct Need {
  const FileEntry* file;
  std::uint64_t stored_bytes = 0;
  std::uint32_t chunks = 0;
};

// Made files are parts of others.
std::vector<Need> needs_of(const Catalog& catalog) {
  std::vector<Need> needs;
  for (const FileEntry& file : catalog.files().subspan(1)) needs.push_back({&file});
  for (const auto records : {catalog.tables().chunks, catalog.tables().bases}) {
    for (const ChunkRecord& record : records) {
      if (record.file == 0) continue;
      needs[record.file - 1u].stored_bytes += record.stored;
      ++needs[record.file - 1u].chunks;
    }
  }
  std::erase_if(needs,
                [](const Need& need) { return need.file->maker || need.file->name.empty(); });
  return needs;
}

// The name as a program in this folder would open it.
std::string place_of(const std::string& checkpoint, const std::string& name) {
  if (is_url(checkpoint)) return name;
  std::error_code ignored;
  const std::filesystem::path path(checkpoint);
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  return ((is_folder ? path : path.parent_path()) / name).string();
}

Outcome run_needs(const NeedsOptions& options, Output& out) {
  JsonWriter json(out);
  if (options.common.json) begin_files(json);
  ExitCode worst = ExitCode::kOk;
  for (const std::string& name : options.files) {
    auto file = open_file(name, options.common);
    if (!file) return about(name, file);
    const auto needs = needs_of(file->checkpoint().catalog());
    if (options.common.json) {
      json.begin_object();
      json.member("file", shown_name(name));
      json.key("needs");
      json.begin_array();
    }
    for (const Need& need : needs) {
      const auto& problem = need.file->problem;
      if (problem) worst = ExitCode::kCheckFailed;
      if (options.common.json) {
        json.begin_object();
        json.member("name", std::string_view(need.file->name));
        json.member("length", need.file->length);
        json.member("chunks", need.chunks);
        json.member("bytes", need.stored_bytes);
        if (problem) {
          json.key("problem");
          json.begin_object();
          write_error_members(json, *problem);
          json.end_object();
        }
        json.end_object();
      } else if (options.is_long) {
        out.print("{:>10}  {:>13}  {}\n", format_size(need.stored_bytes),
                  problem ? to_string(problem->code) : "ok",
                  escaped(place_of(name, need.file->name)));
      } else {
        out.print("{}\n", escaped(place_of(name, need.file->name)));
      }
    }
    if (options.common.json) {
      json.end_array();
      json.end_object();
    }
  }
  if (options.common.json) end_files(json, out);
  return worst;
}

}  // namespace

void add_needs(CLI::App& app, Action& action) {
  auto options = std::make_shared<NeedsOptions>();
  CLI::App* command =
      app.add_subcommand("needs", "List the further files that checkpoints have tensors in");
  command->add_option("FILE", options->files, kCheckpointsHelp)->required()->expected(-1);
  command
      ->add_flag("-l,--long", options->is_long,
                 "Also how much of the checkpoint lies in the file, and whether it is there and is "
                 "the one that is meant")
      ->group(kOutputGroup);
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier needs step-9.espalier", "espalier needs --long *.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_needs(*options, out); }; });
}

}  // namespace espalier::cli
