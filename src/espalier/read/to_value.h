// From a checkpoint back to an owning state tree.
#ifndef ESPALIER_READ_TO_VALUE_H_
#define ESPALIER_READ_TO_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/value.h"

namespace espalier {

/// Gives the data of a tensor that a tree is made of: read, mapped, or to be produced later. Never
/// called for placeholders, and once for tensors that are tied.
using TensorLoader = std::function<Result<TensorData>(const TensorRef& tensor)>;

/// The tree from `root` down, exactly as it was saved: kinds, labels, the order of keys, ties
/// (nodes of the same tensor share one Tensor). Recurses as deep as the tree, which Limits::depth
/// bounds.
[[nodiscard]] Result<Value> to_value(const NodeRef& root, const TensorLoader& load);

/// Makes trees of nodes of one checkpoint, one after the other: a tensor that is in several of them
/// is one object.
class ValueMaker {
 public:
  explicit ValueMaker(TensorLoader load) : load_(std::move(load)) {}

  /// As to_value() does.
  [[nodiscard]] Result<Value> make(const NodeRef& node);

 private:
  [[nodiscard]] Result<Value> make_tensor(const TensorRef& ref);

  TensorLoader load_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const Tensor>> tensors_;
};

/// The same for several nodes of one checkpoint.
[[nodiscard]] Result<std::vector<Value>> to_values(std::span<const NodeRef> roots,
                                                   const TensorLoader& load);

/// The same for trees without tensors, such as a checkpoint's metadata; tensors become
/// placeholders.
Value to_value(const NodeRef& root);

/// The node by itself: its kind, label and value. A container has no children, a tensor no data.
Value to_value_alone(const NodeRef& node);

/// A tensor like `ref`, with dtype, shape, names and block type, but with this data.
Tensor to_tensor(const TensorRef& ref, TensorData data = {});

}  // namespace espalier

#endif  // ESPALIER_READ_TO_VALUE_H_
