#include "espalier/format/find_path.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "espalier/format/access.h"

namespace espalier {
namespace {

// How the key of a child is printed.
DigitMark digit_mark(const Tables& t, const NodeRecord& parent, KeyView key) {
  const auto integer = key.is_int ? std::nullopt : read_int_key(key.text);
  if (!integer) return DigitMark::kAlways;
  const auto children = t.nodes.subspan(parent.value, parent.count);
  return std::any_of(
             children.begin(), children.end(),
             [&](const NodeRecord& child) { return node_key(t, child) == KeyView::of(*integer); })
             ? DigitMark::kAlways
             : DigitMark::kNever;
}

}  // namespace

std::string find_path(const Tables& t, std::uint32_t node) {
  struct Step {
    KeyView key;
    DigitMark mark;
  };
  std::vector<Step> steps;
  // Parents come before their children, so one descending pass finds all of them. A search from the
  // front for each would take minutes to refuse a deep tree of millions of nodes.
  for (std::uint32_t candidate = node; node > kMetadataRoot && candidate-- > 0;) {
    const NodeRecord& parent = t.nodes[candidate];
    if (!is_container(node_kind(parent)) || parent.value > node ||
        node - parent.value >= parent.count) {
      continue;
    }
    const KeyView key = has_keys(node_kind(parent))
                            ? node_key(t, t.nodes[node])
                            : KeyView::of(std::int64_t{node - parent.value});
    steps.push_back({key, digit_mark(t, parent, key)});
    node = candidate;
  }
  std::string path = node == kMetadataRoot ? "(metadata)" : "";
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    append_path(path, step->key, step->mark);
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
