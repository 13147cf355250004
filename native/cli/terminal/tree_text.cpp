#include "cli/terminal/tree_text.h"

#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {

std::string TreeText::tie_text(const NodeRef& node) const {
  const auto original = ties_.original(node);
  return original ? " = " + mention_text(paths_.path(*original)) : "";
}

void TreeText::print(Output& out, std::string_view name, const NodeRef& node) {
  out.print("{}: {}{}\n", out.colors().paint(Style::kPath, name),
            node_text(node, totals_, out.colors()), tie_text(node));
  std::string indent;
  print_children(out, node, 0, indent);
}

void TreeText::print_children(Output& out, const NodeRef& node, std::uint32_t depth,
                              std::string& indent) {
  if (depth == max_depth_) {
    if (node.size() > 0) out.print("{}└── ... {}\n", indent, counted(node.size(), "more node"));
    return;
  }
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    const NodeRef child = node.child(i);
    const bool last = i + 1 == node.size();
    std::string segment;
    append_segment(segment, node.key(i), node.digit_mark(node.key(i)));
    out.print("{}{}{}: {}{}\n", indent, last ? "└── " : "├── ",
              out.colors().paint(Style::kPath, escaped(segment)),
              node_text(child, totals_, out.colors()), tie_text(child));
    if (child.size() == 0) continue;
    const std::size_t size = indent.size();
    indent += last ? "    " : "│   ";
    print_children(out, child, depth + 1, indent);
    indent.resize(size);
  }
}

void TreeText::write(JsonWriter& json, const std::string& path, const NodeRef& node) {
  std::string extended = path;
  LongNames names;
  write_node(json, extended, node, 0, names);
}

void TreeText::write_node(JsonWriter& json, std::string& path, const NodeRef& node,
                          std::uint32_t depth, LongNames& names) {
  json.begin_object();
  if (!is_container(node.kind()) || depth == max_depth_) {
    write_node_members(json, path, node, names);
    json.end_object();
    return;
  }
  json.member("path", path);
  json.member("kind", kind_name(node.kind()));
  if (const auto label = node.label()) json.member("label", *label);
  write_totals(json, totals_.of(node));
  json.key("children");
  json.begin_array();
  const std::size_t size = path.size();
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    append_path(path, node.key(i), node.digit_mark(node.key(i)));
    write_node(json, path, node.child(i), depth + 1, names);
    path.resize(size);
  }
  json.end_array();
  json.end_object();
}

}  // namespace espalier::cli
