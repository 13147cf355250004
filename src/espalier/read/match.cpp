#include "espalier/read/match.h"

#include "espalier/walker.h"

namespace espalier {
namespace {

bool takes(const TensorFilter& filter, const NodeRef& node) {
  const auto tensor = node.tensor();
  if (!tensor || (filter.dtype && tensor->dtype() != *filter.dtype)) return false;
  return filter.least_bytes == 0 || tensor->bytes() >= filter.least_bytes;
}

}  // namespace

std::vector<std::uint32_t> match_nodes(NodeRef root, PatternStepper& patterns,
                                       std::optional<TensorFilter> filter) {
  std::vector<std::uint32_t> nodes;
  for (Walker walk(root, patterns); walk.next();) {
    if (!filter || takes(*filter, walk.node())) nodes.push_back(walk.node().number());
  }
  return nodes;
}

}  // namespace espalier
