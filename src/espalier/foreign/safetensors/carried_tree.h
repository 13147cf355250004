// A state's whole tree as JSON text, for formats that hold named tensors and strings and nothing
// else.
//
// The text stands in the file's metadata under kCarriedTreeKey and refers to the tensors by their
// names in the file. docs/safetensors.md describes it, so that other programs can read it.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_
#define ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/tree/value.h"

namespace espalier {

/// The metadata key that a carried tree is stored under.
inline constexpr char kCarriedTreeKey[] = "espalier.tree";

/// A tensor as it is stored in the file: its name there, and whether it stands there as plain
/// bytes, because the format lacks its dtype.
struct StoredTensor {
  std::string_view name;
  bool as_bytes = false;
};

/// The JSON text of `state` and, if not null, of `metadata`. `find` says how a tensor is stored.
/// kInvalidTree for a string that is not UTF-8; kUnrepresentable if the text has more than
/// kMaxSafetensorsHeaderBytes bytes. The tree's depth has been checked (see flatten()).
Result<std::string> carry_tree(const Value& state, const Value* metadata,
                               const std::function<StoredTensor(const Tensor&)>& find);

/// A state and its metadata as they were before they were written.
struct CarriedState {
  Value state;
  Value metadata;
};

/// Undoes carry_tree(): `flat` is the dict of tensors that the file holds and `metadata` its
/// metadata, with the carried tree among it. The result is exact: key order, kinds, labels, ties,
/// the bits of floats. It shares the data of the tensors of `flat`. Nothing if no tree is carried.
///
/// kSafetensorsInvalid if the text is not a carried tree (no container has the same key twice) or
/// does not fit the tensors (each must be used, none be missing, and all that is said of one be the
/// same); kUnsupportedVersion for a version other than 1; kLimitExceeded for
/// more nodes, depth or digits than `limits` allows. Memory is up to some fifty times the text's
/// length.
Result<std::optional<CarriedState>> restore_carried(const Value& flat, const Value& metadata,
                                                    const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_
