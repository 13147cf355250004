// The graph of objects that a TensorFlow checkpoint carries, which says where its tensors belong.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_
#define ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// The name of the entry that has it.
inline constexpr std::string_view kObjectGraphName = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// A message TrackableObjectGraph. Texts are views of its bytes. Numbers of nodes are checked.
struct ObjectGraph {
  struct Child {
    std::uint32_t node = 0;
    std::string_view name;
  };
  struct Attribute {
    std::string_view name;
    /// What the variable is called, as "dense/kernel".
    std::string_view full_name;
    /// The name of the entry, or what the names of its entries begin with.
    std::string_view key;
  };
  /// A variable of an optimizer that belongs to another variable.
  struct Slot {
    std::uint32_t original = 0;
    std::string_view name;
    std::uint32_t node = 0;
  };
  /// A node's children, attributes and slots stand behind those of the nodes before it.
  struct Node {
    std::size_t children_end = 0;
    std::size_t attributes_end = 0;
    std::size_t slots_end = 0;
    /// Of an object that saves itself.
    std::string_view saver;
  };
  /// The first one is the root.
  std::vector<Node> nodes;
  /// Those of all nodes.
  std::vector<Child> children;
  std::vector<Attribute> attributes;
  std::vector<Slot> slots;
  std::uint64_t unknown_fields = 0;

  std::span<const Child> children_of(std::uint32_t node) const {
    return part_of(children, node, &Node::children_end);
  }
  std::span<const Attribute> attributes_of(std::uint32_t node) const {
    return part_of(attributes, node, &Node::attributes_end);
  }
  std::span<const Slot> slots_of(std::uint32_t node) const {
    return part_of(slots, node, &Node::slots_end);
  }

 private:
  template <class T>
  std::span<const T> part_of(const std::vector<T>& all, std::uint32_t node,
                             std::size_t Node::*end) const {
    const std::size_t begin = node == 0 ? 0 : nodes[node - 1].*end;
    return std::span(all).subspan(begin, nodes[node].*end - begin);
  }
};

/// Reads a graph. kForeignInvalid if it is damaged or names nodes that it does not have;
/// kLimitExceeded for more nodes and names than `limits.nodes`.
[[nodiscard]] Result<ObjectGraph> read_object_graph(ByteSpan bytes, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_
