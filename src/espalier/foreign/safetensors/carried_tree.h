// A state's whole tree as JSON text, for formats that hold only named tensors and strings.
//
// The text is in the file's metadata under kCarriedTreeKey and refers to the tensors by their names
// in the file. docs/safetensors.md describes it for other programs.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_
#define ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_

#include <string>
#include <string_view>

#include "espalier/base/function_ref.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"

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
[[nodiscard]] Result<std::string> carry_tree(const Value& state, const Value* metadata,
                                             FunctionRef<CarriedTensor(const Tensor&)> find);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_CARRIED_TREE_H_
