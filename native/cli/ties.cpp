#include "ties.h"

namespace espalier::cli {

Ties::Ties(const Checkpoint& checkpoint) {
  std::vector<std::uint32_t> names(checkpoint.tensor_count());
  bool tied = false;
  const auto node_count = static_cast<std::uint32_t>(checkpoint.catalog().tables().nodes.size());
  for (std::uint32_t i = 0; i < node_count; ++i) {
    const auto tensor = NodeRef(&checkpoint.catalog(), i).tensor();
    if (tensor && ++names[tensor->number()] == 2) tied = true;
  }
  if (!tied) return;
  for (Walker walk(checkpoint.state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor || names[tensor->number()] < 2) continue;
    const auto [at, is_new] = groups_.try_emplace(tensor->number());
    if (is_new) at->second.first_node = walk.node().number();
    std::vector<std::string>& paths = at->second.paths;
    paths.emplace_back(walk.path());
    if (paths.back() < paths[at->second.representative]) {
      at->second.representative = paths.size() - 1;
    }
  }
}

const std::vector<std::string>& Ties::paths(const TensorRef& tensor) const {
  static const std::vector<std::string> kNone;
  const auto at = groups_.find(tensor.number());
  return at == groups_.end() ? kNone : at->second.paths;
}

const std::string* Ties::representative(const TensorRef& tensor) const {
  const auto at = groups_.find(tensor.number());
  return at == groups_.end() ? nullptr : &at->second.paths[at->second.representative];
}

const std::string* Ties::original(const NodeRef& node) const {
  const auto tensor = node.tensor();
  const auto at = tensor ? groups_.find(tensor->number()) : groups_.end();
  if (at == groups_.end() || at->second.first_node == node.number()) return nullptr;
  return &at->second.paths.front();
}

}  // namespace espalier::cli
