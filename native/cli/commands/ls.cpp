// espalier ls: one line for each tensor.

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/notes.h"
#include "cli/opening/several_files.h"
#include "cli/opening/urls.h"
#include "cli/selection/natural_order.h"
#include "cli/selection/node_filter.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/storage.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/format/format_info.h"
#include "espalier/report/node_paths.h"
#include "espalier/report/ties.h"

namespace espalier::cli {
namespace {

struct LsOptions {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
  bool all = false;
  bool with_storage = false;
  bool reverse = false;
  std::string order;
  FilterOptions filters;
};

// Of --long.
constexpr std::array kTitles = {"dtype",  "shape",  "size",  "offset",
                                "stored", "chunks", "codec", "hash"};

std::uint64_t bytes_of(const NodeRef& node) {
  const auto tensor = node.tensor();
  return tensor && !tensor->is_placeholder() ? tensor->bytes() : 0;
}

// Tensors are numbered in the order of their bytes; nodes without tensors come last.
std::uint64_t file_rank(const NodeRef& node) {
  const auto tensor = node.tensor();
  return tensor ? tensor->number() : ~std::uint64_t{0};
}

// The listed node numbers, in order.
using Nodes = std::vector<std::uint32_t>;

// A checkpoint, with facts about all of its nodes.
struct Listing {
  explicit Listing(const Checkpoint& c) : checkpoint(c), paths(c), storage(c) {}

  NodeRef node(std::uint32_t number) const { return {&checkpoint.catalog(), number}; }

  const Checkpoint& checkpoint;
  NodePaths paths;
  Storage storage;
};

void sort(Nodes& nodes, const Listing& listing, const LsOptions& options) {
  const auto by = [&](auto less) { std::stable_sort(nodes.begin(), nodes.end(), less); };
  using Number = std::uint32_t;
  if (options.order == "path") by([&](Number a, Number b) { return listing.paths.less(a, b); });
  if (options.order == "name") {
    const auto ranks = natural_ranks(listing.checkpoint.state());
    by([&](Number a, Number b) { return ranks[a] < ranks[b]; });
  }
  if (options.order == "size") {
    by([&](Number a, Number b) { return bytes_of(listing.node(a)) > bytes_of(listing.node(b)); });
  }
  if (options.order == "file") {
    by([&](Number a, Number b) { return file_rank(listing.node(a)) < file_rank(listing.node(b)); });
  }
  if (options.reverse) std::reverse(nodes.begin(), nodes.end());
}

Totals totals_of(const Listing& listing, const Nodes& nodes) {
  Totals totals;
  std::vector<bool> seen(listing.checkpoint.tensor_count());
  for (const std::uint32_t number : nodes) {
    const auto tensor = listing.node(number).tensor();
    if (!tensor || seen[tensor->number()]) continue;
    seen[tensor->number()] = true;
    totals.add(*tensor);
  }
  return totals;
}

// The aligned columns of one line.
void fill(Table::Cells& cells, Listing& listing, const NodeRef& node, const LsOptions& options) {
  const auto tensor = node.tensor();
  if (tensor) {
    cells = {dtype_text(*tensor), shape_text(tensor->shape()),
             tensor->is_placeholder() ? "no data" : format_size(tensor->bytes())};
  } else {
    cells = {std::string(kind_name(node.kind())),
             is_container(node.kind()) ? "(" + std::to_string(node.size()) + ")" : "", ""};
  }
  if (!options.with_storage) return;
  std::array<std::string, 5> storage;
  if (tensor) storage = listing.storage.cells(*tensor);
  std::move(storage.begin(), storage.end(), std::back_inserter(cells));
}

// The text after the columns: the path, and what the node is if not a tensor of its own.
std::string name_of(const Listing& listing, const Ties& ties, const NodeRef& node, Colors colors) {
  std::string name = colors.paint(Style::kPath, path_text(listing.paths.path(node)));
  if (const auto original = ties.original(node)) {
    name += " = " + mention_text(listing.paths.path(*original));
  }
  if (!node.tensor() && !is_container(node.kind())) name += " = " + scalar_text(node, 64);
  return name;
}

// Why nothing is listed: what the patterns select, and what was left out of it.
std::string explain_nothing(const CheckpointFile& file, const LsOptions& options) {
  const auto all = select_nodes(file, options.patterns, true);
  const std::string nodes = counted(all ? all->size() : 0, "node");
  const std::string selected =
      options.patterns.empty() ? "the checkpoint has " + nodes : "the patterns select " + nodes;
  if (!NodeFilter(options.filters).is_empty()) return selected + ", and the filters pass none";
  return selected + ", and none is a tensor; --all lists them";
}

Table table_for(const LsOptions& options, Colors colors) {
  using Align = Table::Align;
  std::vector<Table::Column> columns = {{Align::kLeft, Style::kType}, {}, {Align::kRight}};
  if (options.with_storage) {
    columns.insert(columns.end(), {{Align::kRight}, {Align::kRight}, {Align::kRight}, {}, {}});
  }
  return {std::move(columns), colors};
}

void print_text(Output& out, const CheckpointFile& file, Listing& listing, const Nodes& nodes,
                const LsOptions& options) {
  const bool has_titles = options.with_storage && !options.common.quiet && !nodes.empty();
  Table table = table_for(options, out.colors());
  Table::Cells cells(kTitles.begin(), kTitles.end());
  if (has_titles) table.measure(cells);
  for (const std::uint32_t number : nodes) {
    fill(cells, listing, listing.node(number), options);
    table.measure(cells);
  }
  std::string line;
  if (has_titles) table.append_titles(line, {kTitles.begin(), kTitles.end()}, "path");
  out.write(line);
  const Ties ties(listing.checkpoint);
  for (const std::uint32_t number : nodes) {
    const NodeRef node = listing.node(number);
    fill(cells, listing, node, options);
    line.clear();
    table.append_row(line, cells, name_of(listing, ties, node, out.colors()));
    out.write(line);
  }
  if (options.common.quiet) return;
  const Totals totals = totals_of(listing, nodes);
  out.print("{}, {}, {}", counted(totals.tensors, "tensor"), counted(totals.elements, "element"),
            format_size(totals.bytes));
  if (options.with_storage) out.print(", {} stored", format_size(totals.stored));
  out.put('\n');
  if (nodes.empty()) out.print("{}\n", explain_nothing(file, options));
  print_notes(out, listing.checkpoint.catalog());
}

void write_json(JsonWriter& json, Listing& listing, const Nodes& nodes, const LsOptions& options) {
  json.begin_object();
  json.member("file", shown_name(options.file));
  json.member("format", listing.checkpoint.catalog().format().name);
  json.key("nodes");
  json.begin_array();
  LongNames names;
  for (const std::uint32_t number : nodes) {
    const NodeRef node = listing.node(number);
    json.begin_object();
    write_node_members(json, listing.paths.path(node), node, names);
    if (const auto tensor = node.tensor(); tensor && options.with_storage) {
      listing.storage.write_members(json, *tensor);
    }
    json.end_object();
  }
  json.end_array();
  write_totals(json, totals_of(listing, nodes));
  write_notes(json, listing.checkpoint.catalog());
  json.end_object();
}

Outcome run_on_file(const LsOptions& options, Output& out, JsonWriter* json) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  const NodeFilter filter(options.filters);
  auto nodes = select_nodes(*file, options.patterns, options.all || filter.wants_other_kinds());
  if (!nodes) return about(options.file, nodes);
  Listing listing(file->checkpoint());
  if (!filter.is_empty()) {
    std::erase_if(*nodes, [&](std::uint32_t node) { return !filter.passes(listing.node(node)); });
  }
  sort(*nodes, listing, options);
  if (json != nullptr) {
    write_json(*json, listing, *nodes, options);
  } else {
    print_text(out, *file, listing, *nodes, options);
  }
  return ExitCode::kOk;
}

Outcome run_ls(const LsOptions& options, Output& out) {
  return for_each_file(options.file, options.patterns, options.common, out,
                       [&](const std::string& file, const std::vector<std::string>& patterns,
                           Output& output, JsonWriter* json) {
                         LsOptions one = options;
                         one.file = file;
                         one.patterns = patterns;
                         return run_on_file(one, output, json);
                       });
}

}  // namespace

void add_ls(CLI::App& app, Action& action) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command = app.add_subcommand("ls", "List tensors: type, shape, size, key path");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  add_file_or_pattern_arguments(*command, options->patterns);
  command->add_flag("-a,--all", options->all, "List scalars and containers too");
  command->add_flag("-l,--long", options->with_storage,
                    "Show offset, stored bytes, chunks, codec and hash too");
  command
      ->add_option("--sort", options->order,
                   "The order: of the tree (the default), by name (layer 2 before layer 10), by "
                   "path in byte order, by size (largest first), or by position in the file")
      ->check(CLI::IsMember({"tree", "name", "path", "size", "file"}).description(""))
      ->type_name("tree|name|path|size|file");
  command->add_flag("-r,--reverse", options->reverse, "Reverse the order");
  add_filter_options(*command, options->filters);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "line of titles and no line of totals");
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Show what a key map makes of the file");
  set_examples(*command, {"espalier ls run.espalier",
                          "espalier ls run.espalier 'model/**/weight' --sort size",
                          "espalier ls run.espalier optimizer --dtype bf16,f32 --larger 1MiB"});
  command->callback([options, &action] {
    // --quiet prints no notes.
    const bool lists_notes = options->common.json || !options->common.quiet;
    if (lists_notes) options->common.code = CommonOptions::Code::kListed;
    action = [options](Output& out) { return run_ls(*options, out); };
  });
}

}  // namespace espalier::cli
