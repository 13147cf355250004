#include "espalier/map/leaves.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "espalier/key_path.h"
#include "espalier/map/key_map_parts.h"

namespace espalier {
namespace {

class Namer {
 public:
  Namer(const MapSide& side, std::string prefix, std::vector<NamedNode>& out)
      : side_(side), prefix_(std::move(prefix)), out_(out) {}

  // Recurses as deep as the tree, which Limits::depth bounds.
  void add(const NodeRef& node, const std::string& name) {
    if (!is_container(node.kind()) || node.kind() == Kind::kSet || node.size() == 0) {
      out_.push_back({prefix_ + name, node});
      return;
    }
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      const KeyView key = node.key(i);
      add(node.child(i), is_unwrapped(side_, key) ? name : joined(name, node, key));
    }
  }

  // A flat file has the segments within its keys.
  std::string without_wrappers(std::string_view text) const {
    if (side_.unwrap.empty()) return std::string(text);
    std::string kept;
    for (;;) {
      const std::size_t end = text.find('.');
      const std::string_view segment = text.substr(0, end);
      if (!is_unwrapped(side_, KeyView::of(segment))) {
        if (!kept.empty()) kept += '.';
        kept += segment;
      }
      if (end == std::string_view::npos) return kept;
      text.remove_prefix(end + 1);
    }
  }

 private:
  std::string joined(const std::string& name, const NodeRef& parent, const KeyView& key) const {
    std::string longer = name;
    if (side_.names == MapSide::Names::kPaths) {
      append_path(longer, key, parent.digit_mark(key));
      return longer;
    }
    if (!name.empty()) longer += '.';
    longer += key.is_int ? std::to_string(key.integer) : without_wrappers(key.text);
    return longer;
  }

  const MapSide& side_;
  std::string prefix_;
  std::vector<NamedNode>& out_;
};

}  // namespace

std::vector<NamedNode> named_leaves(const NodeRef& state, const MapSide& side,
                                    std::string_view label) {
  std::vector<NamedNode> leaves;
  // An empty checkpoint has no leaves.
  if (is_container(state.kind()) && state.size() == 0) return leaves;
  std::string prefix;
  if (!label.empty()) prefix = std::string(label) + "::";
  Namer(side, std::move(prefix), leaves).add(state, {});
  return leaves;
}

bool is_unwrapped(const MapSide& side, const KeyView& key) {
  return !key.is_int &&
         std::find(side.unwrap.begin(), side.unwrap.end(), key.text) != side.unwrap.end();
}

std::string unwrapped(const MapSide& side, std::string_view name) {
  if (side.names == MapSide::Names::kPaths) return std::string(name);
  std::vector<NamedNode> none;
  return Namer(side, {}, none).without_wrappers(name);
}

MapLeaf to_leaf(const NamedNode& named) {
  MapLeaf leaf{.name = named.name};
  const auto tensor = named.node.tensor();
  if (!tensor) return leaf;
  leaf.is_tensor = true;
  leaf.is_placeholder = tensor->is_placeholder();
  leaf.dtype = tensor->dtype();
  leaf.shape.assign(tensor->shape().begin(), tensor->shape().end());
  if (leaf.dtype == DType::kOpaque) {
    const BlockType block = tensor->block();
    leaf.block_name = std::string(block.name);
    leaf.block_elements = block.elements;
    leaf.block_bytes = block.bytes;
  }
  return leaf;
}

}  // namespace espalier
