// espalier show: one node, exactly: a scalar's value, a tensor's elements, a container's tree.

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/urls.h"
#include "cli/selection/array_text.h"
#include "cli/selection/selection.h"
#include "cli/selection/slice_spec.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/storage.h"
#include "cli/terminal/text.h"
#include "cli/terminal/tree_text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/report/ties.h"
#include "espalier/walker.h"

namespace espalier::cli {
namespace {

constexpr std::uint32_t kAllLevels = ~std::uint32_t{0};

struct ShowOptions {
  CommonOptions common;
  std::string file;
  std::string path;
  std::string slice;
  bool full = false;
  bool metadata = false;
};

// Calls `use(path)` for all nodes with that tensor, if there are several. It streams, because the
// paths may take much more memory than the file.
template <class Use>
void for_each_tied(const CheckpointFile& file, const TensorRef& tensor, Use use) {
  if (!Ties(file.checkpoint()).is_tied(tensor)) return;
  for (Walker walk(file.state()); walk.next();) {
    if (walk.node().tensor() == tensor) use(walk.path());
  }
}

Result<void> print_tensor(Output& out, const CheckpointFile& file, const NodeRef& node,
                          const SliceSpec& slice, bool full) {
  const TensorRef tensor = *node.tensor();
  const auto print_elements = read_array_text(file, tensor, slice, full);
  if (!print_elements) return propagate(print_elements);
  out.print("{}{} {} {} ({}, {})\n", kind_name(node.kind()), label_text(node),
            out.colors().paint(Style::kType, dtype_text(tensor)), shape_text(tensor.shape()),
            counted(tensor.elements(), "element"), format_size(tensor.bytes()));
  if (const std::string names = axis_names_text(tensor, ~std::size_t{0}); !names.empty()) {
    out.print("axes: {}\n", names);
  }
  if (const auto hash = tensor.content_hash()) out.print("hash: {}\n", to_hex(*hash));
  for_each_tied(file, tensor, [&](std::string_view path) {
    out.print("tied: {}\n", out.colors().paint(Style::kPath, escaped(path)));
  });
  (*print_elements)(out);
  return {};
}

Result<void> print_text(Output& out, const CheckpointFile& file, const NodeRef& node,
                        const ShowOptions& options, const SliceSpec& slice) {
  if (node.tensor()) return print_tensor(out, file, node, slice, options.full);
  if (is_container(node.kind())) {
    TreeText tree(file.checkpoint(), kAllLevels);
    const char* root_name = options.metadata ? "metadata" : "state";
    tree.print(out, options.path.empty() ? root_name : escaped(options.path), node);
    return {};
  }
  out.print("{}{}", kind_name(node.kind()), label_text(node));
  if (node.kind() != Kind::kNull) out.print(" {}", scalar_text(node, ~std::size_t{0}));
  out.put('\n');
  return {};
}

Result<void> print_json(Output& out, const CheckpointFile& file, const NodeRef& node,
                        const ShowOptions& options, const SliceSpec& slice) {
  const auto tensor = node.tensor();
  Result<ArrayJson> write_elements;
  if (tensor) write_elements = read_array_json(file, *tensor, slice, options.full);
  if (!write_elements) return propagate(write_elements);
  JsonWriter json(out);
  json.begin_object();
  json.member("file", shown_name(options.file));
  json.key("node");
  if (!tensor) {
    TreeText(file.checkpoint(), kAllLevels).write(json, options.path, node);
  } else {
    json.begin_object();
    LongNames names;
    write_node_members(json, options.path, node, names);
    Storage(file.checkpoint()).write_members(json, *tensor);
    json.key("tied");
    json.begin_array();
    for_each_tied(file, *tensor, [&](std::string_view path) { json.value(path); });
    json.end_array();
    json.key("values");
    (*write_elements)(json);
    json.end_object();
  }
  json.end_object();
  out.put('\n');
  return {};
}

Outcome run_show(ShowOptions options, Output& out) {
  auto slice = SliceSpec::parse(options.slice);
  if (!slice) return about("--slice", slice);
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  const NodeRef root = options.metadata ? file->metadata() : file->state();
  auto found = find_node(root, options.path);
  if (!found) return about(options.file, found);
  const NodeRef node = found->node;
  options.path = std::move(found->path);
  if (!options.slice.empty() && !node.tensor()) {
    return fail_about(options.file,
                      {ErrorCode::kWrongKind, Error::kNoOffset, options.path,
                       "this is not a tensor, so --slice does not apply; leave --slice out"});
  }
  auto shown = options.common.json ? print_json(out, *file, node, options, *slice)
                                   : print_text(out, *file, node, options, *slice);
  if (!shown) {
    if (shown.error().path.empty()) shown.error().path = options.path;
    return about(options.file, shown);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "Show one node: a value, a tensor, a subtree");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  command->add_option("PATH", options->path, "The node's key path; '' for the root")
      ->type_name("")
      ->required();
  command
      ->add_option("--slice", options->slice,
                   "A part of the tensor, for example 0:4,:,::2; an index keeps its axis")
      ->type_name("SPEC");
  command->add_flag("--full", options->full, "All elements, however many");
  command->add_flag("--metadata", options->metadata, "PATH is in the file's metadata");
  add_json_option(*command, options->common);
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Show what a key map makes of the file");
  options->common.map.checks_data = true;
  set_examples(*command, {"espalier show run.espalier model/embedding/weight",
                          "espalier show run.espalier model/embedding/weight --slice=-2:,0:4"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_show(*options, out); }; });
}

}  // namespace espalier::cli
