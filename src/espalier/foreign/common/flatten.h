// Flattens a nested tree to names, and lists what flat names cannot express.
#ifndef ESPALIER_FOREIGN_COMMON_FLATTEN_H_
#define ESPALIER_FOREIGN_COMMON_FLATTEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"

namespace espalier {

/// A tensor and its flat name.
struct FlatTensor {
  /// The keys on its path, joined with '.'. Int keys and positions are decimals.
  std::string name;
  /// The same as a printed key path.
  std::string path;
  /// Shared by all nodes that are tied to it.
  std::shared_ptr<const Tensor> tensor;
};

/// A state as flat names.
struct FlatState {
  /// In tree order. Tied nodes have one entry each, with the same tensor. No placeholders.
  std::vector<FlatTensor> tensors;
  /// Everything except tensors in nested dicts with text keys: other values and containers, int
  /// keys, labels, empty containers, placeholders, ties.
  Losses losses;
};

/// Flattens `state`. kNameCollision, naming both key paths, if two tensors get the same name;
/// kInvalidTree if a key is not UTF-8 or a tensor was moved away; kLimitExceeded if the tree is
/// deeper than `limits.depth`; kUnrepresentable if all names together have more than `name_bytes`
/// bytes, the target format's limit.
[[nodiscard]] Result<FlatState> flatten(const Value& state, std::uint64_t name_bytes,
                                        const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_FLATTEN_H_
