#include "espalier/format/find_path.h"

#include <vector>

#include "espalier/format/access.h"

namespace espalier {

std::string find_path(const Tables& t, std::uint32_t node) {
  std::vector<Key> keys;
  // Parents come before their children, so one descending pass finds all of them. A search from the
  // front for each would take minutes to refuse a deep tree of millions of nodes.
  for (std::uint32_t candidate = node; node > kMetadataRoot && candidate-- > 0;) {
    const NodeRecord& parent = t.nodes[candidate];
    if (!is_container(node_kind(parent)) || parent.value > node ||
        node - parent.value >= parent.count) {
      continue;
    }
    keys.emplace_back(has_keys(node_kind(parent)) ? Key(node_key(t, t.nodes[node]))
                                                  : Key(std::int64_t{node - parent.value}));
    node = candidate;
  }
  std::string path = node == kMetadataRoot ? "(metadata)" : "";
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    append_path(path, key->view());
  }
  return path;
}

std::string find_tensor_path(const Tables& t, std::uint32_t tensor) {
  for (std::uint32_t node = 0; node < t.nodes.size(); ++node) {
    const Kind kind = node_kind(t.nodes[node]);
    if ((kind == Kind::kTensor || kind == Kind::kPlaceholder) && t.nodes[node].value == tensor) {
      return find_path(t, node);
    }
  }
  return {};
}

}  // namespace espalier
