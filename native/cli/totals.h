// How much is below each container.
#ifndef ESPALIER_CLI_TOTALS_H_
#define ESPALIER_CLI_TOTALS_H_

#include <cstdint>
#include <vector>

#include "espalier/read/checkpoint.h"

namespace espalier::cli {

/// Tensors, each tied one once; placeholders count as tensors without bytes.
struct Totals {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;

  void add(const TensorRef& tensor);
};

/// The totals of every subtree of a checkpoint, worked out in one pass.
class SubtreeTotals {
 public:
  explicit SubtreeTotals(const Checkpoint& checkpoint);

  /// The totals of a node and all below it.
  Totals of(const NodeRef& node) const;

 private:
  // A node whose tensor an earlier node has too.
  struct Repeat {
    std::uint32_t node;
    std::uint32_t previous;  // the node before it with the same tensor
    Totals totals;
  };

  // What is below a container is one run of node numbers, so that its totals are a difference.
  std::vector<std::uint32_t> ends_;  // by node: one past the last node below it
  std::vector<Totals> sums_;         // by node: of all nodes before it
  std::vector<Repeat> repeats_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TOTALS_H_
