// The tree of a checkpoint of Orbax, before it becomes a catalog.
#ifndef ESPALIER_FOREIGN_ORBAX_TREE_H_
#define ESPALIER_FOREIGN_ORBAX_TREE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/error.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"
#include "espalier/limits.h"

namespace espalier {

/// A node. Texts are views of what the files said.
struct OrbaxNode {
  enum class Type : std::uint8_t {
    kDict,
    kList,
    kTuple,
    kRecord,
    kNull,
    kBool,
    kInteger,
    kUnsigned,  // beyond an int64
    kReal,
    kText,
    kTensor,
    kPlaceholder,  // a tensor that cannot be read, of whose type as much is known as `tensor` says
  };
  struct Child {
    std::string_view key;  // of dicts and records
    std::uint32_t node = 0;
  };

  Type type = Type::kDict;
  std::string label = {};
  std::vector<Child> children = {};
  std::string_view text = {};
  std::int64_t integer = 0;  // a bool, too
  std::uint64_t number = 0;
  double real = 0;
  ForeignTensor tensor = {};

  bool is_container() const { return type <= Type::kRecord; }
};

/// All nodes. Their numbers and addresses stay.
class OrbaxTree {
 public:
  std::uint32_t add(OrbaxNode node) {
    nodes_.push_back(std::move(node));
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  /// A value of JSON, whose tree must stay.
  std::uint32_t add_json(JsonRef json);
  void add_child(std::uint32_t parent, std::string_view key, std::uint32_t child) {
    nodes_[parent].children.push_back({key, child});
  }

  OrbaxNode& operator[](std::uint32_t node) { return nodes_[node]; }
  const OrbaxNode& operator[](std::uint32_t node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }

 private:
  std::deque<OrbaxNode> nodes_;
};

/// Adds the next node: `node` with its label, and a container without its children. Gives ok().
bool add_orbax_node(TableBuilder& builder, const OrbaxNode& node);

/// The tables of a state and its metadata, which are containers. kForeignInvalid with the path for
/// a key that comes twice, kLimitExceeded.
[[nodiscard]] Result<OwnedTables> orbax_tables(const OrbaxTree& tree, std::uint32_t state,
                                               std::uint32_t metadata, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_TREE_H_
