#include "espalier/read/totals.h"

#include <algorithm>

namespace espalier {
namespace {

void add_up(std::uint64_t& sum, std::uint64_t more) {
  sum = more > ~std::uint64_t{0} - sum ? ~std::uint64_t{0} : sum + more;
}

// One past the last node below `node`. The nodes below a container are one run of numbers. It ends
// with the descendants of the last child that has any.
std::uint32_t end_below(NodeRef node) {
  std::uint32_t end = node.number() + 1;
  while (node.size() > 0) {
    const std::uint32_t first = node.child(0).number();
    end = first + node.size();
    std::uint32_t last = end;
    while (last > first && NodeRef(&node.catalog(), last - 1).size() == 0) --last;
    if (last == first) break;
    node = NodeRef(&node.catalog(), last - 1);
  }
  return end;
}

}  // namespace

void Totals::add(const TensorRef& tensor) {
  add_up(tensors, 1);
  if (tensor.is_placeholder()) return;
  add_up(elements, tensor.elements());
  add_up(bytes, tensor.bytes());
  add_up(stored, tensor.stored_bytes());
}

SubtreeTotals::SubtreeTotals(const Checkpoint& checkpoint) : counted_(checkpoint.tensor_count()) {}

// Calls `take` once for each tensor of some subtrees.
template <typename Take>
void SubtreeTotals::each_tensor(std::span<const NodeRef> nodes, Take take) {
  if (++call_ == 0) {
    std::fill(counted_.begin(), counted_.end(), 0u);
    call_ = 1;
  }
  const auto count = [&](const NodeRef& at) {
    const auto tensor = at.tensor();
    if (!tensor || counted_[tensor->number()] == call_) return;
    counted_[tensor->number()] = call_;
    take(*tensor);
  };
  for (const NodeRef& node : nodes) {
    count(node);
    if (node.size() == 0) continue;
    const std::uint32_t end = end_below(node);
    for (std::uint32_t i = node.child(0).number(); i < end; ++i) count({&node.catalog(), i});
  }
}

Totals SubtreeTotals::of(const NodeRef& node) { return of(std::span(&node, 1)); }

Totals SubtreeTotals::of(std::span<const NodeRef> nodes) {
  Totals totals;
  each_tensor(nodes, [&](const TensorRef& tensor) { totals.add(tensor); });
  return totals;
}

SubtreeTotals::ByDType SubtreeTotals::by_dtype(std::span<const NodeRef> nodes) {
  ByDType totals;
  each_tensor(nodes, [&](const TensorRef& tensor) {
    totals[static_cast<std::size_t>(tensor.dtype())].add(tensor);
  });
  return totals;
}

}  // namespace espalier
