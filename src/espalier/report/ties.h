// Finds the nodes that share a tensor.
#ifndef ESPALIER_REPORT_TIES_H_
#define ESPALIER_REPORT_TIES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/report/node_paths.h"

namespace espalier {

/// The tied tensors of a checkpoint: those with more than one node. Holds a few numbers for each
/// tensor, however many nodes it has.
class Ties {
 public:
  explicit Ties(const Checkpoint& checkpoint);

  /// Whether the tensor has more than one node.
  bool is_tied(const TensorRef& tensor) const { return mentions_[tensor.number()].count > 1; }
  /// The first node with the same tensor in tree order; nullopt if the node itself is the first, or
  /// is not tied.
  std::optional<NodeRef> original(const NodeRef& node) const;
  /// Another node with the same tensor, if possible the first one; nullopt if the node is not tied.
  std::optional<NodeRef> partner(const NodeRef& node) const;

 private:
  struct Mentions {
    std::uint32_t count = 0;
    // For tied tensors: the first two nodes in tree order.
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };
  std::vector<Mentions> mentions_;  // by tensor
};

/// For each tensor the node with the first path in byte order. It identifies a group of tied nodes
/// independently of the tree order.
std::vector<std::uint32_t> tie_representatives(const Checkpoint& checkpoint,
                                               const NodePaths& paths);

}  // namespace espalier

#endif  // ESPALIER_REPORT_TIES_H_
