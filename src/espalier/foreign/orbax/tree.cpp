#include "espalier/foreign/orbax/tree.h"

#include <utility>

#include "espalier/bigint.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/format/tree_walk.h"

namespace espalier {
namespace {

using OrbaxType = OrbaxNode::Type;

// For TreeWalk.
class OrbaxSource {
 public:
  using Node = std::uint32_t;
  class Children {
   public:
    explicit Children(const OrbaxNode& parent) : parent_(&parent) {}
    std::size_t size() const { return parent_->children.size(); }
    bool has_keys() const {
      return parent_->type == OrbaxNode::Type::kDict || parent_->type == OrbaxNode::Type::kRecord;
    }
    Node node(std::size_t i) const { return parent_->children[i].node; }
    KeyView key(std::size_t i) const { return KeyView::of(parent_->children[i].key); }

   private:
    const OrbaxNode* parent_;
  };

  explicit OrbaxSource(const OrbaxTree& tree) : tree_(tree) {}

  bool is_container(Node node) const { return tree_[node].is_container(); }
  Children children(Node node) const { return Children(tree_[node]); }

  bool add(TableBuilder& builder, Node number, bool) const {
    return add_orbax_node(builder, tree_[number]);
  }

 private:
  const OrbaxTree& tree_;
};

}  // namespace

bool add_orbax_node(TableBuilder& builder, const OrbaxNode& node) {
  if (!node.label.empty()) builder.label(node.label);
  switch (node.type) {
    case OrbaxType::kDict:
      builder.container(Kind::kDict);
      break;
    case OrbaxType::kList:
      builder.container(Kind::kList);
      break;
    case OrbaxType::kTuple:
      builder.container(Kind::kTuple);
      break;
    case OrbaxType::kRecord:
      builder.container(Kind::kRecord);
      break;
    case OrbaxType::kNull:
      builder.null();
      break;
    case OrbaxType::kBool:
      builder.boolean(node.integer != 0);
      break;
    case OrbaxType::kInteger:
      builder.integer(node.integer);
      break;
    case OrbaxType::kUnsigned:
      // 64 bits are within every limit.
      if (const auto big = BigInt::from_decimal(std::to_string(node.number))) {
        builder.bigint(big->bytes());
      }
      break;
    case OrbaxType::kReal:
      builder.real(node.real);
      break;
    case OrbaxType::kText:
      builder.string(node.text);
      break;
    case OrbaxType::kTensor:
      add_foreign_tensor(builder, node.tensor);
      break;
    case OrbaxType::kPlaceholder:
      builder.placeholder({node.tensor.dtype, node.tensor.shape, node.tensor.block});
      break;
  }
  return builder.ok();
}

// It recurses as deep as the JSON is nested, which its parser has limited.
std::uint32_t OrbaxTree::add_json(JsonRef json) {
  OrbaxNode node{.type = OrbaxType::kNull};
  if (const auto flag = json.boolean()) {
    node = {.type = OrbaxType::kBool, .integer = *flag ? 1 : 0};
  } else if (const auto integer = json.int64()) {
    node = {.type = OrbaxType::kInteger, .integer = *integer};
  } else if (const auto number = json.uint64()) {
    node = {.type = OrbaxType::kUnsigned, .number = *number};
  } else if (const auto real = json.real()) {
    node = {.type = OrbaxType::kReal, .real = *real};
  } else if (const auto text = json.text()) {
    node = {.type = OrbaxType::kText, .text = *text};
  } else if (json.is_array()) {
    node.type = OrbaxType::kList;
    for (const JsonRef element : json) node.children.push_back({{}, add_json(element)});
  } else if (json.is_object()) {
    node.type = OrbaxType::kDict;
    for (const auto& [name, value] : json.members())
      node.children.push_back({name, add_json(value)});
  }
  return add(std::move(node));
}

Result<OwnedTables> orbax_tables(const OrbaxTree& tree, std::uint32_t state, std::uint32_t metadata,
                                 const Limits& limits) {
  OrbaxSource source(tree);
  TableBuilder builder(limits);
  TreeWalk<OrbaxSource> walk(source, builder, limits);
  const bool is_whole = walk.run(state, metadata);
  auto tables = builder.finish();
  if (tables) return tables;
  Error& error = tables.error();
  if (!is_whole) error.path = walk.current_path();
  make_reader_error(error);
  if (builder.repeated_key()) error.message = "a dict of the checkpoint has the same key twice";
  return propagate(tables);
}

}  // namespace espalier
