// The part of a tree that patterns select.
#ifndef ESPALIER_READ_SELECT_H_
#define ESPALIER_READ_SELECT_H_

#include <functional>
#include <span>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_path.h"
#include "espalier/pattern.h"
#include "espalier/value.h"

namespace espalier {

/// Makes the tensor that stands for a selected one: the whole, a slice, in memory or produced
/// later. Called once for tensors that are tied, and for placeholders too.
using TensorMaker = std::function<Result<Tensor>(const TensorRef& tensor)>;

struct SelectOptions {
  /// Nodes to leave out with all below them, even if a pattern selects them.
  std::function<bool(const NodeRef& node)> leave_out = {};
  /// Whether elements of a list or tuple that are not selected keep their scalars. If not, an empty
  /// dict holds the position of each, and the result holds no value that is not selected.
  bool keep_elements = true;
};

/// The tree below `path` in `root`, cut down to what `patterns` select; they match key paths from
/// `root` on. A dict, record or set keeps the children that are selected or hold something
/// selected. In a list or tuple, where a position means something, the others stay, with
/// placeholders for their tensors. Labels, the order of keys and ties among selected tensors
/// survive. kNotFound if nothing is at `path`, or if nothing below it is selected, or if a pattern
/// matches nothing; the errors of `make`. Recurses as deep as the tree, which Limits::depth bounds.
[[nodiscard]] Result<Value> select(const NodeRef& root, const KeyPath& path,
                                   std::span<const Pattern> patterns, const TensorMaker& make,
                                   const SelectOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_READ_SELECT_H_
