#include "espalier/report/ties.h"

#include "espalier/walker.h"

namespace espalier {
namespace {

constexpr std::uint32_t kNoNode = ~std::uint32_t{0};

// Calls `visit(node, tensor)` for all nodes with tensors; metadata has none.
template <class Visit>
void for_each_mention(const Checkpoint& checkpoint, Visit visit) {
  const auto count = static_cast<std::uint32_t>(checkpoint.catalog().tables().nodes.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (const auto tensor = NodeRef(&checkpoint.catalog(), i).tensor()) visit(i, *tensor);
  }
}

}  // namespace

Ties::Ties(const Checkpoint& checkpoint) : mentions_(checkpoint.tensor_count()) {
  bool any = false;
  for_each_mention(checkpoint, [&](std::uint32_t, const TensorRef& tensor) {
    any = ++mentions_[tensor.number()].count == 2 || any;
  });
  if (!any) return;
  for (Mentions& mentions : mentions_) mentions.first = mentions.second = kNoNode;
  // Node numbers go level by level within each container, so they are not in tree order.
  for (Walker walk(checkpoint.state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor) continue;
    Mentions& mentions = mentions_[tensor->number()];
    if (mentions.first == kNoNode) {
      mentions.first = walk.node().number();
    } else if (mentions.second == kNoNode) {
      mentions.second = walk.node().number();
    }
  }
}

std::optional<NodeRef> Ties::original(const NodeRef& node) const {
  const auto tensor = node.tensor();
  if (!tensor || !is_tied(*tensor)) return std::nullopt;
  const std::uint32_t first = mentions_[tensor->number()].first;
  return first != node.number() ? std::optional(NodeRef(&node.catalog(), first)) : std::nullopt;
}

std::optional<NodeRef> Ties::partner(const NodeRef& node) const {
  const auto tensor = node.tensor();
  if (!tensor || !is_tied(*tensor)) return std::nullopt;
  const Mentions& mentions = mentions_[tensor->number()];
  return NodeRef(&node.catalog(),
                 mentions.first != node.number() ? mentions.first : mentions.second);
}

std::vector<std::uint32_t> tie_representatives(const Checkpoint& checkpoint,
                                               const NodePaths& paths) {
  std::vector<std::uint32_t> least(checkpoint.tensor_count(), kNoNode);
  for_each_mention(checkpoint, [&](std::uint32_t node, const TensorRef& tensor) {
    std::uint32_t& known = least[tensor.number()];
    if (known == kNoNode || paths.less(node, known)) known = node;
  });
  return least;
}

}  // namespace espalier
