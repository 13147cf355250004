// How much is below each node of a checkpoint.
#ifndef ESPALIER_READ_TOTALS_H_
#define ESPALIER_READ_TOTALS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/checkpoint.h"

namespace espalier {

/// Sums over tensors. Placeholders count as tensors without elements or bytes. Each sum that would
/// exceed 2^64 - 1, as those of a safetensors file that claims too much might, stays there.
struct Totals {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;   // of the elements, packed
  std::uint64_t stored = 0;  // in the file

  void add(const TensorRef& tensor);
};

/// Works out totals of subtrees, each tied tensor counted once. Every call looks at all nodes of
/// its subtree, some nanoseconds each, and what is kept between calls is 4 bytes for each tensor.
/// The checkpoint must outlive it. Not thread-safe.
class SubtreeTotals {
 public:
  explicit SubtreeTotals(const Checkpoint& checkpoint);

  /// The totals of a node of the checkpoint and all below it.
  Totals of(const NodeRef& node);

  /// The totals of several nodes and all below them.
  Totals of(std::span<const NodeRef> nodes);

  /// The same for each element type, by its number; 0 is not used.
  using ByDType = std::array<Totals, kLastDType + 1>;
  ByDType by_dtype(std::span<const NodeRef> nodes);

 private:
  template <typename Take>
  void each_tensor(std::span<const NodeRef> nodes, Take take);

  std::vector<std::uint32_t> counted_;  // by tensor: the call that has counted it last
  std::uint32_t call_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_READ_TOTALS_H_
