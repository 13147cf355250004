// A state's whole tree as JSON text, for formats that hold only named tensors and strings.
//
// The text is in the file's metadata under kCarriedTreeKey and refers to the tensors by their names
// in the file. docs/safetensors.md describes it for other programs.
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

/// The metadata key of a carried tree.
inline constexpr char kCarriedTreeKey[] = "espalier.tree";

/// A tensor as stored in the file: its name, and whether it is stored as plain bytes because the
/// format lacks its dtype.
struct CarriedTensor {
  std::string_view name;
  bool as_bytes = false;
};

/// The JSON text of `state` and, if not null, of `metadata`. `find` returns how a tensor is stored.
/// kInvalidTree for a string that is not UTF-8; kUnrepresentable if the text has more than
/// kMaxSafetensorsHeaderBytes bytes. The tree's depth has been checked (see flatten()).
[[nodiscard]] Result<std::string> carry_tree(
    const Value& state, const Value* metadata,
    const std::function<CarriedTensor(const Tensor&)>& find);

/// A state and its metadata as they were before the save.
struct CarriedState {
  Value state;
  Value metadata;
};

/// Undoes carry_tree(). `flat` is the dict of tensors that the file holds, and `metadata` its
/// metadata, including the carried tree. The result is exact: key order, kinds, labels, ties, the
/// bits of floats. It shares the data of the tensors of `flat`. nullopt if the metadata carries no
/// tree.
///
/// kSafetensorsInvalid if the text is not a carried tree (also if a container has the same key
/// twice) or does not fit the tensors (a tensor is unused or missing, or is described in two ways);
/// kUnsupportedVersion for a version other than 1; kLimitExceeded for more nodes, depth or digits
/// than `limits` allows. Takes up to some fifty times the text's length of memory.
[[nodiscard]] Result<std::optional<CarriedState>> restore_carried(const Value& flat,
                                                                  const Value& metadata,
                                                                  const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_
