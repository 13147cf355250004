// A tree, drawn with lines or as nested JSON.
#ifndef ESPALIER_CLI_TERMINAL_TREE_TEXT_H_
#define ESPALIER_CLI_TERMINAL_TREE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "cli/terminal/values.h"
#include "espalier/checkpoint.h"
#include "espalier/read/totals.h"
#include "espalier/report/node_paths.h"
#include "espalier/report/ties.h"

namespace espalier::cli {

/// Draws subtrees of one checkpoint.
class TreeText {
 public:
  /// Shows containers down to `max_depth` levels below the start.
  TreeText(const Checkpoint& checkpoint, std::uint32_t max_depth)
      : totals_(checkpoint), ties_(checkpoint), paths_(checkpoint), max_depth_(max_depth) {}

  /// One line for each node; the first shows `name`.
  void print(Output& out, std::string_view name, const NodeRef& node);
  /// A JSON object with the node's members (see write_node_members()); `children` is an array of
  /// such objects, or a number where the depth ends.
  void write(JsonWriter& json, const std::string& path, const NodeRef& node);

 private:
  void print_children(Output& out, const NodeRef& node, std::uint32_t depth, std::string& indent);
  void write_node(JsonWriter& json, std::string& path, const NodeRef& node, std::uint32_t depth,
                  LongNames& names);
  std::string tie_text(const NodeRef& node) const;

  SubtreeTotals totals_;
  Ties ties_;
  NodePaths paths_;
  std::uint32_t max_depth_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_TREE_TEXT_H_
