// Parts of a checkpoint: walking what patterns select, and the tree that is left of it.
#ifndef ESPALIER_READ_SELECT_H_
#define ESPALIER_READ_SELECT_H_

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/read/checkpoint.h"
#include "espalier/tree/key_path.h"
#include "espalier/tree/pattern_set.h"
#include "espalier/tree/value.h"

namespace espalier {

/// Visits the nodes that a PatternSet selects: parents before children, children in order.
class SelectedWalker {
 public:
  /// From `root` on; paths start there. The patterns must outlive the walker.
  SelectedWalker(NodeRef root, PatternSet& patterns) : walker_(root), patterns_(patterns) {}

  /// Goes to the next selected node; false when there is none. Must be called before the first
  /// node.
  bool next();
  NodeRef node() const { return walker_.node(); }
  /// The node's printed key path. Valid until next().
  std::string_view path() const { return walker_.path(); }

 private:
  Walker walker_;
  PatternSet& patterns_;
  std::vector<PatternSet::Place> places_;  // by depth
};

/// Makes the tensor that stands for a selected one: the whole, a slice, in memory or produced
/// later. Called once for tensors that are tied, and for placeholders too.
using TensorMaker = std::function<Result<Tensor>(const TensorRef& tensor)>;

/// The tree below `path` in `root`, cut down to what `patterns` select; they match key paths from
/// `root` on. A dict, record or set keeps the children that are selected or hold something
/// selected. In a list or tuple, where a position means something, the others stay, with
/// placeholders for their tensors. Labels, the order of keys and ties among selected tensors
/// survive. kNotFound if nothing is at `path`, or if nothing below it is selected, or if a pattern
/// matches nothing; the errors of `make`. Recurses as deep as the tree, which Limits::depth bounds.
Result<Value> select(const NodeRef& root, const KeyPath& path, PatternSet& patterns,
                     const TensorMaker& make);

}  // namespace espalier

#endif  // ESPALIER_READ_SELECT_H_
