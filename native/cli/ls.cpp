// espalier ls: one line for each tensor.

#include <algorithm>
#include <memory>

#include "command.h"
#include "json_writer.h"
#include "selection.h"
#include "text.h"
#include "values.h"

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
  bool all = false;
  bool with_storage = false;
  bool reverse = false;
  std::string order;
};

std::uint64_t bytes_of(const NodeRef& node) {
  const auto tensor = node.tensor();
  return tensor && !tensor->is_placeholder() ? tensor->bytes() : 0;
}

// Tensors are numbered in the order of their bytes; what has none comes last.
std::uint64_t file_rank(const NodeRef& node) {
  const auto tensor = node.tensor();
  return tensor ? tensor->number() : ~std::uint64_t{0};
}

void sort(std::vector<SelectedNode>& nodes, const Options& options) {
  const auto by = [&](auto less) { std::stable_sort(nodes.begin(), nodes.end(), less); };
  using Node = const SelectedNode&;
  if (options.order == "path") by([](Node a, Node b) { return a.path < b.path; });
  if (options.order == "size")
    by([](Node a, Node b) { return bytes_of(a.node) > bytes_of(b.node); });
  if (options.order == "file") {
    by([](Node a, Node b) { return file_rank(a.node) < file_rank(b.node); });
  }
  if (options.reverse) std::reverse(nodes.begin(), nodes.end());
}

Totals totals_of(const CheckpointFile& file, const std::vector<SelectedNode>& nodes) {
  Totals totals;
  std::vector<bool> seen(file.checkpoint().tensor_count());
  for (const SelectedNode& selected : nodes) {
    const auto tensor = selected.node.tensor();
    if (!tensor || seen[tensor->number()]) continue;
    seen[tensor->number()] = true;
    totals.add(*tensor);
  }
  return totals;
}

void add_storage_cells(Table& table, const std::optional<TensorRef>& tensor) {
  if (!tensor) {
    for (int i = 0; i < 4; ++i) table.add("");
    return;
  }
  const std::uint32_t chunks = tensor->chunk_count();
  table.add(chunks > 0
                ? std::to_string(tensor->catalog().tables().chunks[tensor->first_chunk()].offset)
                : "-");
  table.add(std::to_string(chunks));
  table.add(codec_text(*tensor));
  const auto hash = tensor->content_hash();
  table.add(hash ? to_hex(*hash) : "-");
}

void print_text(Output& out, const CheckpointFile& file, const std::vector<SelectedNode>& nodes,
                const Options& options) {
  using Align = Table::Align;
  std::vector<Align> columns = {Align::kLeft, Align::kLeft, Align::kRight};
  if (options.with_storage) {
    columns.insert(columns.end(), {Align::kRight, Align::kRight, Align::kLeft, Align::kLeft});
  }
  columns.push_back(Align::kLeft);
  Table table(std::move(columns));
  const Ties ties(file.checkpoint());
  for (const SelectedNode& selected : nodes) {
    const NodeRef& node = selected.node;
    const auto tensor = node.tensor();
    if (tensor) {
      table.add(dtype_text(*tensor));
      table.add(shape_text(tensor->shape()));
      table.add(node.kind() == Kind::kPlaceholder ? "no data" : format_size(tensor->bytes()));
    } else {
      table.add(kind_name(node.kind()));
      table.add(is_container(node.kind()) ? "(" + std::to_string(node.size()) + ")" : "");
      table.add("");
    }
    if (options.with_storage) add_storage_cells(table, tensor);
    std::string name = selected.path.empty() ? "(root)" : escaped(selected.path);
    if (const std::string* original = ties.original(node)) name += " = " + escaped(*original);
    if (!tensor && !is_container(node.kind())) name += " = " + scalar_text(node, 64);
    table.add(name);
  }
  std::string line;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    line.clear();
    table.append_row(line, row);
    out.write(line);
  }
  if (options.common.quiet) return;
  const Totals totals = totals_of(file, nodes);
  out.print("{}, {}, {}\n", format_count(totals.tensors, "tensor"),
            format_count(totals.elements, "element"), format_size(totals.bytes));
}

void print_json(Output& out, const CheckpointFile& file, const std::vector<SelectedNode>& nodes,
                const Options& options) {
  JsonWriter json(out);
  json.begin_object();
  json.member("file", options.file);
  json.member("format", format_name(file.checkpoint().catalog().format()));
  json.key("nodes");
  json.begin_array();
  for (const SelectedNode& selected : nodes) {
    json.begin_object();
    write_node_members(json, selected.path, selected.node);
    if (const auto tensor = selected.node.tensor(); tensor && options.with_storage) {
      write_storage_members(json, *tensor);
    }
    json.end_object();
  }
  json.end_array();
  write_totals(json, totals_of(file, nodes));
  json.end_object();
  out.put('\n');
}

Outcome run(const Options& options, Output& out) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  auto nodes = select_nodes(*file, options.patterns, options.all);
  if (!nodes) return about(options.file, nodes);
  sort(*nodes, options);
  if (options.common.json) {
    print_json(out, *file, *nodes, options);
  } else {
    print_text(out, *file, *nodes, options);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_ls(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ls", "List tensors: type, shape, size, key path");
  command->add_option("FILE", options->file, "A checkpoint")->required();
  add_pattern_arguments(*command, options->patterns);
  command->add_flag("-a,--all", options->all, "Scalars and containers too");
  command->add_flag("-l,--long", options->with_storage, "Offset, chunks, codec and hash too");
  command
      ->add_option("--sort", options->order,
                   "Order: tree (default), path, size (largest first), file")
      ->check(CLI::IsMember({"tree", "path", "size", "file"}).description(""))
      ->type_name("ORDER");
  command->add_flag("-r,--reverse", options->reverse, "The other way round");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "line of totals");
  add_read_options(*command, options->common);
  command->footer("Example: espalier ls run.espalier 'model/**/weight' --sort size");
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
