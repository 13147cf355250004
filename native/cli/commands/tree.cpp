// espalier tree: the nested state, drawn.

#include <memory>
#include <utility>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/urls.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/text.h"
#include "cli/terminal/tree_text.h"
#include "cli/terminal/values.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {
namespace {

struct TreeOptions {
  CommonOptions common;
  std::string file;
  std::string path;
  bool metadata = false;
  std::uint32_t depth = ~std::uint32_t{0};
};

Outcome run_tree(const TreeOptions& options, Output& out) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  const NodeRef root = options.metadata ? file->metadata() : file->state();
  const auto found = find_node(root, options.path);
  if (!found) return fail_about(options.file, found.error());
  const auto& [path, node] = *found;
  TreeText tree(file->checkpoint(), options.depth);
  if (options.common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.member("file", shown_name(options.file));
    json.key("tree");
    tree.write(json, path, node);
    json.end_object();
    out.put('\n');
    return ExitCode::kOk;
  }
  const char* root_name = options.metadata ? "metadata" : "state";
  tree.print(out, path.empty() ? root_name : escaped(path), node);
  const bool whole = path.empty() && !options.metadata;
  if (whole && file->metadata().size() > 0) tree.print(out, "metadata", file->metadata());
  return ExitCode::kOk;
}

}  // namespace

void add_tree(CLI::App& app, Action& action) {
  auto options = std::make_shared<TreeOptions>();
  CLI::App* command =
      app.add_subcommand("tree", "Draw the nested state: keys, kinds, values, sizes");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  command->add_option("PATH", options->path, "The key path to begin at; the root by default")
      ->type_name("");
  command->add_option("-d,--depth", options->depth, "Levels to show")->type_name("N");
  command->add_flag("--metadata", options->metadata, "PATH is in the file's metadata");
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Show what a key map makes of the file");
  set_examples(*command,
               {"espalier tree run.espalier", "espalier tree run.espalier optimizer --depth 2"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_tree(*options, out); }; });
}

}  // namespace espalier::cli
