// The graph of objects that a TensorFlow checkpoint carries, which says where its tensors belong.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_
#define ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_

#include <cstdint>
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
  struct Node {
    std::vector<Child> children;
    std::vector<Attribute> attributes;
    std::vector<Slot> slots;
    /// Of an object that saves itself.
    std::string_view saver;
  };
  /// The first one is the root.
  std::vector<Node> nodes;
  std::uint64_t unknown_fields = 0;
};

/// Reads a graph. kForeignInvalid if it is damaged or names nodes that it does not have;
/// kLimitExceeded for more nodes and names than `limits.nodes`.
[[nodiscard]] Result<ObjectGraph> read_object_graph(ByteSpan bytes, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_OBJECT_GRAPH_H_
