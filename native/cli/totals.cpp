#include "totals.h"

#include <algorithm>

namespace espalier::cli {

void Totals::add(const TensorRef& tensor) {
  ++tensors;
  if (tensor.is_placeholder()) return;
  elements += tensor.elements();
  bytes += tensor.bytes();
}

SubtreeTotals::SubtreeTotals(const Checkpoint& checkpoint) {
  const auto count = static_cast<std::uint32_t>(checkpoint.catalog().tables().nodes.size());
  const auto node = [&](std::uint32_t i) { return NodeRef(&checkpoint.catalog(), i); };
  constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::vector<std::uint32_t> previous(checkpoint.tensor_count(), kNobody);  // by tensor
  sums_.resize(std::size_t{count} + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    sums_[i + 1] = sums_[i];
    const auto tensor = node(i).tensor();
    if (!tensor) continue;
    sums_[i + 1].add(*tensor);
    std::uint32_t& last = previous[tensor->number()];
    if (last != kNobody) {
      repeats_.push_back({i, last, {}});
      repeats_.back().totals.add(*tensor);
    }
    last = i;
  }
  // Children have higher numbers than their parents.
  ends_.resize(count);
  for (std::uint32_t i = count; i-- > 0;) {
    const NodeRef parent = node(i);
    const std::uint32_t children = parent.size();
    if (children == 0) continue;
    const std::uint32_t first = parent.child(0).number();
    ends_[i] = first + children;
    for (std::uint32_t child = first + children; child-- > first;) {
      if (ends_[child] == 0) continue;
      ends_[i] = ends_[child];
      break;
    }
  }
}

Totals SubtreeTotals::of(const NodeRef& node) const {
  Totals totals;
  if (const auto tensor = node.tensor()) totals.add(*tensor);
  if (node.size() == 0) return totals;
  const std::uint32_t begin = node.child(0).number();
  const std::uint32_t end = ends_[node.number()];
  totals.tensors = sums_[end].tensors - sums_[begin].tensors;
  totals.elements = sums_[end].elements - sums_[begin].elements;
  totals.bytes = sums_[end].bytes - sums_[begin].bytes;
  auto repeat =
      std::lower_bound(repeats_.begin(), repeats_.end(), begin,
                       [](const Repeat& r, std::uint32_t number) { return r.node < number; });
  for (; repeat != repeats_.end() && repeat->node < end; ++repeat) {
    if (repeat->previous < begin) continue;
    totals.tensors -= repeat->totals.tensors;
    totals.elements -= repeat->totals.elements;
    totals.bytes -= repeat->totals.bytes;
  }
  return totals;
}

}  // namespace espalier::cli
