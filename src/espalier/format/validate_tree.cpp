#include <utility>

#include "espalier/format/access.h"
#include "espalier/format/validator.h"

namespace espalier {
namespace {

std::uint64_t words_of(Kind kind) {
  if (kind == Kind::kInt64 || kind == Kind::kFloat64) return 1;
  return kind == Kind::kComplex128 ? 2 : 0;
}

}  // namespace

// Checks keys alone: they must refer to texts and words, and words come in node order. The tree's
// checks decide whether a node should have a key.
bool Validator::check_keys() {
  std::uint64_t words = 0;
  for (const NodeRecord& node : t_.nodes) {
    if (!check_key(node, words)) return false;
  }
  if (words != t_.words.size()) {
    return bad_table(ErrorCode::kTreeInvalid, "some words belong to no node");
  }
  return true;
}

ESPALIER_LOOP_BODY bool Validator::check_key(const NodeRecord& node, std::uint64_t& words) {
  if (node.kind == 0 || node.kind > kLastKind) {
    return bad(ErrorCode::kTreeInvalid, "a node has the unknown kind " + std::to_string(node.kind),
               node);
  }
  if (node.zero != 0) {
    return bad(ErrorCode::kTreeInvalid, "a reserved field of a node is not zero", node);
  }
  switch (node.key_kind) {
    case static_cast<std::uint8_t>(KeyKind::kNone):
      if (node.key != 0) {
        return bad(ErrorCode::kKeyInvalid, "a node without a key has one", node);
      }
      break;
    case static_cast<std::uint8_t>(KeyKind::kText):
      if (node.key >= t_.text_ends.size()) {
        return bad(ErrorCode::kKeyInvalid, "a key is not in the string pool", node);
      }
      texts_.mark(node.key);
      break;
    case static_cast<std::uint8_t>(KeyKind::kInt):
      if (node.key != words || words >= t_.words.size()) {
        return bad(ErrorCode::kKeyInvalid, "an int key does not use the next word", node);
      }
      ++words;
      break;
    default:
      return bad(ErrorCode::kKeyInvalid, "a key is of an unknown kind", node);
  }
  const std::uint64_t used = words_of(node_kind(node));
  if (used > 0) {
    if (node.value != words || !range_fits(words, used, t_.words.size())) {
      return bad(ErrorCode::kTreeInvalid, "a number does not use the next word", node);
    }
    words += used;
  }
  return true;
}

// One walk gives every container the next free nodes. It proves that the nodes form two trees:
// each node is reached once, so there is no cycle, no sharing (a "billion laughs" DAG) and no
// orphan.
bool Validator::check_tree() {
  const auto nodes = static_cast<std::uint32_t>(t_.nodes.size());
  // If no text is longer than this, no path within the depth limit is too long.
  const bool may_be_long = longest_text_ > limits_.path_bytes / (std::uint64_t{limits_.depth} + 1);
  std::vector<Frame> outer;
  Frame frame = {kStateRoot, kMetadataRoot + 1, 0};
  std::uint32_t free = kMetadataRoot + 1;
  for (const std::uint32_t root : {kStateRoot, kMetadataRoot}) {
    if (t_.nodes[root].key_kind != 0) {
      return bad(ErrorCode::kKeyInvalid, "a root has a key", t_.nodes[root]);
    }
  }
  for (;;) {
    if (frame.next == frame.end) {
      if (outer.empty()) break;
      frame = outer.back();
      outer.pop_back();
      continue;
    }
    const NodeRecord& node = t_.nodes[frame.next++];
    std::uint64_t path_bytes = frame.path_bytes;
    if (may_be_long) {
      path_bytes += key_bytes(node);
      if (path_bytes > limits_.path_bytes) {
        // Name only the container's path: the key itself may have gigabytes.
        return reject(ErrorCode::kLimitExceeded, offset_of(node), walked_path(outer),
                      "a key path is longer than the " + counted(limits_.path_bytes, "byte") +
                          " that Limits::path_bytes allows");
      }
    }
    if (!is_container(node_kind(node))) continue;
    if (node.value != free || node.count > nodes - free) {
      return bad(ErrorCode::kTreeInvalid, "the children of a container are not in their place",
                 node);
    }
    if (node.count == 0) continue;
    if (!check_children(node)) return false;
    // The roots' own frame is not a level of any tree.
    outer.push_back(frame);
    if (outer.size() > limits_.depth) {
      return reject(ErrorCode::kLimitExceeded, offset_of(node), walked_path(outer),
                    "the tree is deeper than the " + counted(limits_.depth, "level") +
                        " that Limits::depth allows");
    }
    frame = {free, free + node.count, path_bytes};
    free += node.count;
  }
  if (free != nodes) {
    return bad(ErrorCode::kTreeInvalid, "a node belongs to no container", t_.nodes[free]);
  }
  if (node_kind(t_.nodes[kMetadataRoot]) != Kind::kDict) {
    return bad(ErrorCode::kTreeInvalid, "the metadata is not a dict", t_.nodes[kMetadataRoot]);
  }
  return true;
}

// The path of the current node of the last frame in `stack`. find_path() must not be used before
// the walk has proved that the nodes form a tree.
std::string Validator::walked_path(const std::vector<Frame>& stack) const {
  const auto current = [&](std::size_t level) { return stack[level].next - 1; };
  std::string path = current(0) == kMetadataRoot ? "(metadata)" : "";
  for (std::size_t level = 1; level < stack.size(); ++level) {
    const NodeRecord& parent = t_.nodes[current(level - 1)];
    append_path(path, has_keys(node_kind(parent))
                          ? node_key(t_, t_.nodes[current(level)])
                          : KeyView::of(std::int64_t{current(level) - parent.value}));
  }
  return path;
}

std::uint64_t Validator::key_bytes(const NodeRecord& node) const {
  return node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)
             ? table_text(t_, node.key).size()
             : 0;
}

ESPALIER_LOOP_BODY bool Validator::check_children(const NodeRecord& node) {
  const auto children = t_.nodes.subspan(node.value, node.count);
  const Kind kind = node_kind(node);
  if (!has_keys(kind)) {
    for (const NodeRecord& child : children) {
      if (child.key_kind != 0) {
        return bad(ErrorCode::kKeyInvalid, "an element of a list, tuple or set has a key", child);
      }
    }
    return true;
  }
  for (const NodeRecord& child : children) {
    if (child.key_kind == 0 ||
        (kind == Kind::kRecord && child.key_kind != static_cast<std::uint8_t>(KeyKind::kText))) {
      return bad(ErrorCode::kKeyInvalid, "a child of a dict or record lacks the right key", child);
    }
  }
  // Larger dicts have their order checked in check_dict_order.
  std::size_t ascending = 1;  // ascending keys cannot repeat
  if (node.count > kSmallDict) return true;
  for (std::size_t i = 1; i < children.size(); ++i) {
    if (key_less(t_, children[i - 1], children[i]) && i == ascending) {
      ++ascending;
      continue;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!key_less(t_, children[j], children[i]) && !key_less(t_, children[i], children[j])) {
        return bad(ErrorCode::kKeyInvalid, "a container has the same key twice", children[i]);
      }
    }
  }
  return true;
}

bool Validator::check_values() {
  const std::uint32_t metadata_begin = t_.nodes[kMetadataRoot].value;
  for (std::uint32_t index = 0; index < t_.nodes.size(); ++index) {
    const NodeRecord& node = t_.nodes[index];
    const Kind kind = node_kind(node);
    if (kind == Kind::kTensor || kind == Kind::kPlaceholder) {
      if (index >= metadata_begin) {
        return bad_node(ErrorCode::kTreeInvalid, "the metadata holds a tensor", index);
      }
      if (!check_tensor(index)) return false;
    } else if (is_container(kind)) {
      if (has_keys(kind) && node.count > kSmallDict && !check_dict_order(index)) return false;
      continue;
    } else if (!check_scalar(index)) {
      return false;
    }
    if (kind != Kind::kBytes && kind != Kind::kBigInt && node.count != 0) {
      return bad_node(ErrorCode::kTreeInvalid, "a node that has no count has one", index);
    }
  }
  if (next_value_byte_ != t_.bytes.size()) {
    return bad_table(ErrorCode::kTreeInvalid, "some value bytes belong to no node");
  }
  if (next_dict_ != t_.dict_orders.size() || next_order_ != t_.order.size()) {
    return bad_table(ErrorCode::kKeyInvalid, "an order belongs to no large dict");
  }
  // The checks reach tensors through nodes. A tensor without a node would be unchecked, but later
  // checks follow the references of all tensors.
  if (next_tensor_ != t_.tensors.size()) {
    return bad(ErrorCode::kTensorInvalid, "a tensor belongs to no node", t_.tensors[next_tensor_]);
  }
  return true;
}

bool Validator::check_scalar(std::uint32_t index) {
  const NodeRecord& node = t_.nodes[index];
  switch (node_kind(node)) {
    case Kind::kNull:
    case Kind::kBool:
      if (node.value > (node_kind(node) == Kind::kBool ? 1u : 0u)) {
        return bad_node(ErrorCode::kTreeInvalid, "a null or bool has an impossible value", index);
      }
      return true;
    case Kind::kString:
      if (node.value >= t_.text_ends.size()) {
        return bad_node(ErrorCode::kTextInvalid, "a string is not in the string pool", index);
      }
      texts_.mark(node.value);
      return true;
    case Kind::kBytes:
    case Kind::kBigInt:
      if (node.value != next_value_byte_ || !range_fits(node.value, node.count, t_.bytes.size())) {
        return bad_node(ErrorCode::kTreeInvalid, "a value does not use the next value bytes",
                        index);
      }
      next_value_byte_ += node.count;
      return node_kind(node) != Kind::kBigInt || check_bigint(index);
    default:
      return true;  // Numbers were checked with the keys.
  }
}

bool Validator::check_bigint(std::uint32_t index) {
  const NodeRecord& node = t_.nodes[index];
  // Printing an integer in decimal takes quadratic time.
  if (node.count > limits_.bigint_bytes) {
    return bad_node(ErrorCode::kLimitExceeded,
                    "an integer has " + counted(node.count, "byte") +
                        " and Limits::bigint_bytes allows " + std::to_string(limits_.bigint_bytes),
                    index);
  }
  const auto bytes = t_.bytes.subspan(node.value, node.count);
  const auto negative = [](std::byte byte) { return (byte & std::byte{0x80}) != std::byte{0}; };
  // The shortest form has more than 8 bytes, and its last byte does not just repeat the sign.
  if (bytes.size() <= 8 ||
      bytes.back() == (negative(bytes[bytes.size() - 2]) ? std::byte{0xFF} : std::byte{0})) {
    return bad_node(ErrorCode::kTreeInvalid, "a bigint is not in its shortest form", index);
  }
  return true;
}

bool Validator::check_labels() {
  std::uint64_t next = 0;
  for (const LabelRecord& label : t_.labels) {
    if (label.node < next || label.node >= t_.nodes.size() || label.text >= t_.text_ends.size()) {
      return bad(ErrorCode::kTreeInvalid, "a label is out of order or points nowhere", label);
    }
    texts_.mark(label.text);
    next = std::uint64_t{label.node} + 1;
  }
  return true;
}

// A large dict's keys must ascend, or it must have an order table.
bool Validator::check_dict_order(std::uint32_t index) {
  const NodeRecord& node = t_.nodes[index];
  const auto children = t_.nodes.subspan(node.value, node.count);
  if (next_dict_ == t_.dict_orders.size() || t_.dict_orders[next_dict_].node != index) {
    for (std::size_t i = 1; i < children.size(); ++i) {
      if (!key_less(t_, children[i - 1], children[i])) {
        return bad_node(ErrorCode::kKeyInvalid,
                        "a large dict's keys do not ascend, and it has no order", index);
      }
    }
    return true;
  }
  const DictOrderRecord& record = t_.dict_orders[next_dict_++];
  if (record.first != next_order_ || !range_fits(next_order_, node.count, t_.order.size())) {
    return bad_node(ErrorCode::kKeyInvalid, "a dict does not use the next order", index);
  }
  next_order_ += node.count;
  const auto order = t_.order.subspan(record.first, node.count);
  bool insertion = true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Keys ascend strictly and positions are in range, so every child occurs exactly once.
    if (order[i] >= node.count ||
        (i > 0 && !key_less(t_, children[order[i - 1]], children[order[i]]))) {
      return bad_node(ErrorCode::kKeyInvalid, "a dict's order is not ascending", index);
    }
    insertion = insertion && order[i] == i;
  }
  if (insertion) {
    return bad_node(ErrorCode::kKeyInvalid,
                    "a dict with ascending keys has an order, which it must not have", index);
  }
  return true;
}

}  // namespace espalier
