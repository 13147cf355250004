// Which nodes some patterns select, for trees of millions of nodes.
#ifndef ESPALIER_READ_MATCH_H_
#define ESPALIER_READ_MATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/read/pattern_stepper.h"

namespace espalier {

/// Which tensors and placeholders to take.
struct TensorFilter {
  /// Only this dtype; any if empty.
  std::optional<DType> dtype;
  /// Only tensors with at least this many bytes, packed.
  std::uint64_t least_bytes = 0;
};

/// Numbers of the nodes from `root` down that `patterns` select, in the order of a walk: parents
/// before children, children in order. With a filter, only the tensors and placeholders among them
/// that it takes. Takes some ten nanoseconds for each node.
std::vector<std::uint32_t> match_nodes(NodeRef root, PatternStepper& patterns,
                                       std::optional<TensorFilter> filter = std::nullopt);

}  // namespace espalier

#endif  // ESPALIER_READ_MATCH_H_
