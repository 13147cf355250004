#include "espalier/report/node_paths.h"

namespace espalier {

NodePaths::NodePaths(const Checkpoint& checkpoint) : catalog_(&checkpoint.catalog()) {
  const auto count = static_cast<std::uint32_t>(catalog_->tables().nodes.size());
  parents_.resize(count);
  parents_[kMetadataRoot] = kMetadataRoot;
  for (std::uint32_t i = 0; i < count; ++i) {
    const NodeRef parent(catalog_, i);
    for (std::uint32_t k = 0; k < parent.size(); ++k) parents_[parent.child(k).number()] = i;
  }
}

std::string NodePaths::path(std::uint32_t node) const {
  std::string path;
  append(path, node);
  return path;
}

void NodePaths::append(std::string& path, std::uint32_t node) const {
  const std::uint32_t parent = parents_[node];
  if (parent == node) return;
  append(path, parent);
  append_path(path, key(node), mark(node));
}

KeyView NodePaths::key(std::uint32_t node) const {
  const NodeRef parent(catalog_, parents_[node]);
  return parent.key(node - parent.child(0).number());
}

DigitMark NodePaths::mark(std::uint32_t node) const {
  return NodeRef(catalog_, parents_[node]).digit_mark(key(node));
}

bool NodePaths::less(std::uint32_t a, std::uint32_t b) const {
  // Go up to the nearest common container; `below_a` and `below_b` are its children. Nodes have
  // higher numbers than their containers.
  std::uint32_t x = a;
  std::uint32_t y = b;
  std::uint32_t below_a = a;
  std::uint32_t below_b = b;
  while (x != y) {
    std::uint32_t& higher = x > y ? x : y;
    (x > y ? below_a : below_b) = higher;
    higher = parents_[higher];
  }
  if (x == a || x == b) return x == a && a != b;
  std::string segment_a;
  std::string segment_b;
  append_segment(segment_a, key(below_a), mark(below_a));
  append_segment(segment_b, key(below_b), mark(below_b));
  // If one segment is a prefix of the other, the next byte decides: "a-b" is before "a/b".
  if (below_a != a) segment_a += '/';
  if (below_b != b) segment_b += '/';
  return segment_a < segment_b;
}

}  // namespace espalier
