#include "espalier/format/validate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/loop_body.h"
#include "espalier/base/utf8.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/shape.h"

namespace espalier {
namespace {

// Which entries of a pool something refers to: an entry that nothing uses could hide bytes, and our
// writer makes none.
class Uses {
 public:
  explicit Uses(std::size_t count) : count_(count), bits_((count + 63) / 64) {}

  void mark(std::uint32_t entry) { bits_[entry / 64] |= std::uint64_t{1} << (entry % 64); }

  std::optional<std::size_t> first_unused() const {
    for (std::size_t word = 0; word < bits_.size(); ++word) {
      if (bits_[word] == ~std::uint64_t{0}) continue;
      const auto entry = word * 64 + static_cast<std::size_t>(std::countr_one(bits_[word]));
      if (entry < count_) return entry;
    }
    return std::nullopt;
  }

 private:
  std::size_t count_;
  std::vector<std::uint64_t> bits_;
};

class Validator {
 public:
  Validator(const Tables& tables, const FileFacts& facts, const Limits& limits)
      : t_(tables),
        facts_(facts),
        limits_(limits),
        texts_(tables.text_ends.size()),
        shapes_(tables.shape_ends.size()),
        blocks_(tables.blocks.size()),
        next_byte_(facts.files.front().data_begin) {}

  Result<Derived> run() {
    // The tree comes before the nodes' values, so that later errors can name key paths.
    for (const auto step :
         {&Validator::check_counts, &Validator::check_texts, &Validator::check_shapes,
          &Validator::check_blocks, &Validator::check_keys, &Validator::check_tree,
          &Validator::check_values, &Validator::check_labels, &Validator::check_axes,
          &Validator::check_text_bytes, &Validator::check_uses, &Validator::check_end}) {
      if (!(this->*step)()) return tl::unexpected<Error>(std::move(*error_));
    }
    return std::move(derived_);
  }

 private:
  template <class Record>
  std::uint64_t offset_of(const Record& record) const {
    if (facts_.index == nullptr) return Error::kNoOffset;
    const auto* at = reinterpret_cast<const std::byte*>(&record);
    return facts_.index_offset + static_cast<std::uint64_t>(at - facts_.index);
  }

  // The checks run for every node of a file, so they pass a bool up, and leave the error here;
  // "cold" keeps what only bad files need out of the way of the others.
  [[gnu::cold]] bool reject(ErrorCode code, std::uint64_t offset, std::string path,
                            std::string_view message) {
    error_ = Error{code, offset, std::move(path), std::string(message)};
    return false;
  }

  template <class Record>
  [[gnu::cold]] bool bad(ErrorCode code, std::string_view message, const Record& record) {
    return reject(code, offset_of(record), {}, message);
  }

  [[gnu::cold]] bool bad_node(ErrorCode code, std::string_view message, std::uint32_t node) {
    return reject(code, offset_of(t_.nodes[node]), find_path(t_, node), message);
  }

  [[gnu::cold]] bool bad_chunk(ErrorCode code, std::string_view message, const ChunkRecord& chunk,
                               std::uint32_t node) {
    return reject(code, offset_of(chunk), find_path(t_, node), message);
  }

  [[gnu::cold]] bool bad_table(ErrorCode code, std::string_view message) {
    return reject(code, facts_.index == nullptr ? Error::kNoOffset : facts_.index_offset, {},
                  message);
  }

  bool check_counts() {
    if (t_.nodes.size() > limits_.nodes) {
      return bad_table(ErrorCode::kLimitExceeded,
                       "the tree has " + counted(t_.nodes.size(), "node") +
                           " and Limits::nodes allows " + std::to_string(limits_.nodes));
    }
    if (t_.nodes.size() < 2) {
      return bad_table(ErrorCode::kTreeInvalid,
                       "the roots of the state and the metadata are missing");
    }
    return true;
  }

  // A pool's ends must not decrease and must use up the pool; only then may its entries be looked
  // at.
  template <class Pool>
  bool check_ends(std::span<const std::uint32_t> ends, const Pool& pool, ErrorCode code,
                  const char* what) {
    std::uint32_t previous = 0;
    for (const std::uint32_t& end : ends) {
      if (end < previous || end > pool.size()) {
        return bad(code, std::string("the ends of the ") + what + " are out of order", end);
      }
      previous = end;
    }
    if (previous != pool.size()) {
      return bad_table(code, std::string("the ") + what + " do not use up their pool");
    }
    return true;
  }

  bool check_texts() {
    if (!check_ends(t_.text_ends, t_.text, ErrorCode::kTextInvalid, "texts")) return false;
    const std::string_view pool(t_.text.data(), t_.text.size());
    if (const auto invalid = find_invalid_utf8(pool)) {
      return bad(ErrorCode::kTextInvalid, "a string is not UTF-8", pool[*invalid]);
    }
    derived_.plain_texts.reserve(t_.text_ends.size());
    for (std::uint32_t i = 0; i < t_.text_ends.size(); ++i) {
      if (!check_text(i)) return false;
    }
    return true;
  }

  ESPALIER_LOOP_BODY bool check_text(std::uint32_t i) {
    const std::string_view text = table_text(t_, i);
    longest_text_ = std::max<std::uint64_t>(longest_text_, text.size());
    derived_.plain_texts.push_back(is_plain_key(text));
    // The pool as a whole is UTF-8, so a text is too unless it starts inside a character.
    if (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
      return bad(ErrorCode::kTextInvalid, "a string starts inside a UTF-8 character", text.front());
    }
    if (i > 0 && table_text(t_, i - 1) >= text) {
      return bad(ErrorCode::kTextInvalid, "the string pool is not sorted, or repeats a string",
                 t_.text_ends[i]);
    }
    return true;
  }

  bool check_shapes() {
    if (!check_ends(t_.shape_ends, t_.dims, ErrorCode::kTensorInvalid, "shapes")) return false;
    derived_.shape_elements.reserve(t_.shape_ends.size());
    for (std::uint32_t i = 0; i < t_.shape_ends.size(); ++i) {
      const auto shape = table_shape(t_, i);
      if (shape.size() > kMaxRank) {
        return bad(ErrorCode::kTensorInvalid,
                   "a tensor has " + counted(shape.size(), "axis") + "; the format allows " +
                       std::to_string(kMaxRank),
                   t_.shape_ends[i]);
      }
      if (shape.size() > limits_.rank) {
        return bad(ErrorCode::kLimitExceeded,
                   "a tensor has " + counted(shape.size(), "axis") + " and Limits::rank allows " +
                       std::to_string(limits_.rank),
                   t_.shape_ends[i]);
      }
      derived_.shape_elements.push_back(shape_elements(shape).value_or(kTooManyElements));
      if (i == 0) continue;
      const auto before = table_shape(t_, i - 1);
      const bool ascending = before.size() != shape.size()
                                 ? before.size() < shape.size()
                                 : std::lexicographical_compare(before.begin(), before.end(),
                                                                shape.begin(), shape.end());
      if (!ascending) {
        return bad(ErrorCode::kTensorInvalid, "the shape pool is not sorted, or repeats a shape",
                   t_.shape_ends[i]);
      }
    }
    return true;
  }

  bool check_blocks() {
    const BlockRecord* before = nullptr;
    // A tensor names its block in 16 bits.
    if (t_.blocks.size() > 0xFFFF) {
      return bad_table(ErrorCode::kTensorInvalid, "there are more than 65535 block types");
    }
    for (const BlockRecord& block : t_.blocks) {
      if (block.name >= t_.text_ends.size() || block.elements == 0 || block.bytes == 0) {
        return bad(ErrorCode::kTensorInvalid, "a block type is malformed", block);
      }
      texts_.mark(block.name);
      if (before != nullptr && std::tie(before->name, before->elements, before->bytes) >=
                                   std::tie(block.name, block.elements, block.bytes)) {
        return bad(ErrorCode::kTensorInvalid, "the block types are not sorted", block);
      }
      before = &block;
    }
    return true;
  }

  // Keys by themselves: whether they point at texts and words, which come in node order. Whether a
  // node should have one is the tree's business.
  bool check_keys() {
    std::uint64_t words = 0;
    for (const NodeRecord& node : t_.nodes) {
      if (!check_key(node, words)) return false;
    }
    if (words != t_.words.size()) {
      return bad_table(ErrorCode::kTreeInvalid, "some words belong to no node");
    }
    return true;
  }

  ESPALIER_LOOP_BODY bool check_key(const NodeRecord& node, std::uint64_t& words) {
    if (node.kind == 0 || node.kind > kLastKind) {
      return bad(ErrorCode::kTreeInvalid,
                 "a node has the unknown kind " + std::to_string(node.kind), node);
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
          return bad(ErrorCode::kKeyInvalid, "an int key is not the next word", node);
        }
        ++words;
        break;
      default:
        return bad(ErrorCode::kKeyInvalid, "a key is of an unknown kind", node);
    }
    const std::uint64_t used = words_of(node_kind(node));
    if (used > 0) {
      if (node.value != words || !range_fits(words, used, t_.words.size())) {
        return bad(ErrorCode::kTreeInvalid, "a number is not the next word", node);
      }
      words += used;
    }
    return true;
  }

  static std::uint64_t words_of(Kind kind) {
    if (kind == Kind::kInt64 || kind == Kind::kFloat64) return 1;
    return kind == Kind::kComplex128 ? 2 : 0;
  }

  struct Frame {
    std::uint32_t next;
    std::uint32_t end;
    std::uint64_t path_bytes;
  };

  // The path of the node that the last of `stack` has come to. find_path() must not be used before
  // the walk has proved that there is a tree.
  std::string walked_path(const std::vector<Frame>& stack) const {
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

  // One walk gives every container the next free nodes. It proves that the nodes form two trees:
  // each node is reached once, so there is no cycle, no sharing (a "billion laughs" DAG) and no
  // orphan.
  bool check_tree() {
    const auto nodes = static_cast<std::uint32_t>(t_.nodes.size());
    // No path is too long within the limit on depth unless some text is.
    const bool may_be_long =
        longest_text_ > limits_.path_bytes / (std::uint64_t{limits_.depth} + 1);
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
          // The container's path: the key itself may have gigabytes.
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

  std::uint64_t key_bytes(const NodeRecord& node) const {
    return node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)
               ? table_text(t_, node.key).size()
               : 0;
  }

  ESPALIER_LOOP_BODY bool check_children(const NodeRecord& node) {
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
        return bad(ErrorCode::kKeyInvalid, "a child of a dict or record lacks the right key",
                   child);
      }
    }
    // Larger dicts have their order checked in check_dict_order.
    std::size_t ascending = 1;  // while keys ascend, none can have occurred before
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

  bool check_values() {
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
    // Nodes lead the checks to tensors: nobody has looked at what a tensor without one refers to,
    // and what comes next follows the references of all.
    if (next_tensor_ != t_.tensors.size()) {
      return bad(ErrorCode::kTensorInvalid, "a tensor belongs to no node",
                 t_.tensors[next_tensor_]);
    }
    return true;
  }

  bool check_scalar(std::uint32_t index) {
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
          return bad_node(ErrorCode::kTextInvalid, "a string is not in the pool", index);
        }
        texts_.mark(node.value);
        return true;
      case Kind::kBytes:
      case Kind::kBigInt:
        if (node.value != next_value_byte_ ||
            !range_fits(node.value, node.count, t_.bytes.size())) {
          return bad_node(ErrorCode::kTreeInvalid, "a value is not the next of the value bytes",
                          index);
        }
        next_value_byte_ += node.count;
        return node_kind(node) != Kind::kBigInt || check_bigint(index);
      default:
        return true;  // Numbers were checked with the keys.
    }
  }

  bool check_bigint(std::uint32_t index) {
    const NodeRecord& node = t_.nodes[index];
    // Printing an integer in decimal takes quadratic time.
    if (node.count > limits_.bigint_bytes) {
      return bad_node(ErrorCode::kLimitExceeded,
                      "an integer has " + counted(node.count, "byte") +
                          " and Limits::bigint_bytes allows " +
                          std::to_string(limits_.bigint_bytes),
                      index);
    }
    const auto bytes = t_.bytes.subspan(node.value, node.count);
    const auto negative = [](std::byte byte) { return (byte & std::byte{0x80}) != std::byte{0}; };
    // More than 8 bytes, of which the last is more than a repeated sign.
    if (bytes.size() <= 8 ||
        bytes.back() == (negative(bytes[bytes.size() - 2]) ? std::byte{0xFF} : std::byte{0})) {
      return bad_node(ErrorCode::kTreeInvalid, "a bigint is not in its shortest form", index);
    }
    return true;
  }

  ESPALIER_LOOP_BODY bool check_tensor(std::uint32_t index) {
    const NodeRecord& node = t_.nodes[index];
    const bool placeholder = node_kind(node) == Kind::kPlaceholder;
    if (node.value >= t_.tensors.size() || node.value > next_tensor_ ||
        (placeholder && node.value != next_tensor_)) {
      return bad_node(ErrorCode::kTensorInvalid, "a node names a tensor out of order", index);
    }
    const TensorRecord& tensor = t_.tensors[node.value];
    if (placeholder != (tensor.first_chunk == kNoChunk)) {
      return bad_node(ErrorCode::kTensorInvalid,
                      placeholder ? "a placeholder has chunks" : "a tensor has no first chunk",
                      index);
    }
    if (node.value < next_tensor_) return true;  // Tied: checked when it was first named.
    ++next_tensor_;

    const auto dtype = dtype_from_number(tensor.dtype);
    if (!dtype) {
      return bad_node(ErrorCode::kTensorInvalid,
                      "a tensor has the unknown dtype " + std::to_string(tensor.dtype), index);
    }
    if (tensor.zero != 0 || tensor.shape >= t_.shape_ends.size() ||
        tensor.block > t_.blocks.size() || (tensor.block != 0) != (*dtype == DType::kOpaque)) {
      return bad_node(ErrorCode::kTensorInvalid, "a tensor's record is malformed", index);
    }
    shapes_.mark(tensor.shape);
    if (tensor.block != 0) blocks_.mark(tensor.block - 1u);
    auto bytes = usual_tensor_bytes(*dtype, derived_.shape_elements[tensor.shape]);
    if (!bytes) {
      auto unusual =
          tensor_bytes(*dtype, table_shape(t_, tensor.shape), table_block(t_, tensor.block));
      if (!unusual) {
        return bad_node(unusual.error().code, std::move(unusual.error().message), index);
      }
      bytes = *unusual;
    }
    return placeholder || check_chunks(index, tensor, *bytes);
  }

  bool check_chunks(std::uint32_t index, const TensorRecord& tensor, std::uint64_t bytes) {
    const std::uint64_t count = chunk_count(bytes);
    if (tensor.first_chunk != next_chunk_ || !range_fits(next_chunk_, count, t_.chunks.size())) {
      return bad_node(ErrorCode::kChunkInvalid, "a tensor's chunks are not the next ones", index);
    }
    next_chunk_ += count;
    for (std::uint64_t i = 0; i < count; ++i) {
      const ChunkRecord& chunk = t_.chunks[static_cast<std::size_t>(tensor.first_chunk + i)];
      const std::uint64_t length = chunk_length(bytes, i);
      if (chunk.file >= facts_.files.size() || chunk.zero != 0) {
        return bad_chunk(ErrorCode::kChunkInvalid, "a chunk's record is malformed", chunk, index);
      }
      switch (chunk.codec) {
        case static_cast<std::uint8_t>(Codec::kRaw):
          if (chunk.stored != length) {
            return bad_chunk(ErrorCode::kChunkInvalid, "a raw chunk has the wrong length", chunk,
                             index);
          }
          break;
        case static_cast<std::uint8_t>(Codec::kZstd):
        case static_cast<std::uint8_t>(Codec::kPlanes):
          if (chunk.stored == 0 || chunk.stored >= length) {
            return bad_chunk(ErrorCode::kChunkInvalid,
                             "a compressed chunk is not shorter than its contents", chunk, index);
          }
          if (chunk.codec == static_cast<std::uint8_t>(Codec::kPlanes) &&
              !element_layout(static_cast<DType>(tensor.dtype)).has_planes()) {
            return bad_chunk(ErrorCode::kChunkInvalid,
                             "a chunk is stored as planes and its elements are single bytes", chunk,
                             index);
          }
          used_features_ |= feature_of(chunk.codec);
          break;
        default:
          return bad_chunk(ErrorCode::kChunkInvalid,
                           "a chunk has the unknown codec " + std::to_string(chunk.codec), chunk,
                           index);
      }
      std::uint64_t expected = next_byte_;
      if (i == 0) {
        expected = facts_.placement == Placement::kForeign
                       ? chunk.offset
                       : checked_align(next_byte_, kTensorAlignment).value_or(Error::kNoOffset);
      }
      // A gap could hide bytes, an overlap could show one blob under two names.
      if (chunk.offset != expected || (i > 0 && chunk.file != t_.chunks[tensor.first_chunk].file)) {
        return bad_chunk(ErrorCode::kChunkInvalid, "a chunk is not where the layout puts it", chunk,
                         index);
      }
      const FileEntry& file = facts_.files[chunk.file];
      if (!file.problem && (chunk.offset < file.data_begin ||
                            !range_fits(chunk.offset, chunk.stored, file.length))) {
        return bad_chunk(ErrorCode::kChunkInvalid, "a chunk reaches past the end of the file",
                         chunk, index);
      }
      next_byte_ = chunk.offset + chunk.stored;
    }
    return true;
  }

  bool check_labels() {
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

  // The keys of a large dict come in order, or an order is given for them.
  bool check_dict_order(std::uint32_t index) {
    const NodeRecord& node = t_.nodes[index];
    const auto children = t_.nodes.subspan(node.value, node.count);
    if (next_dict_ == t_.dict_orders.size() || t_.dict_orders[next_dict_].node != index) {
      for (std::size_t i = 1; i < children.size(); ++i) {
        if (!key_less(t_, children[i - 1], children[i])) {
          return bad_node(ErrorCode::kKeyInvalid,
                          "a large dict's keys are neither ascending nor given an order", index);
        }
      }
      return true;
    }
    const DictOrderRecord& record = t_.dict_orders[next_dict_++];
    if (record.first != next_order_ || !range_fits(next_order_, node.count, t_.order.size())) {
      return bad_node(ErrorCode::kKeyInvalid, "a dict's order is not the next one", index);
    }
    next_order_ += node.count;
    const auto order = t_.order.subspan(record.first, node.count);
    bool insertion = true;
    for (std::size_t i = 0; i < order.size(); ++i) {
      // Strictly ascending keys at positions in range: so every child occurs, exactly once.
      if (order[i] >= node.count ||
          (i > 0 && !key_less(t_, children[order[i - 1]], children[order[i]]))) {
        return bad_node(ErrorCode::kKeyInvalid, "a dict's order is not ascending", index);
      }
      insertion = insertion && order[i] == i;
    }
    if (insertion) {
      return bad_node(ErrorCode::kKeyInvalid, "a dict in order has a needless order", index);
    }
    return true;
  }

  bool check_axes() {
    std::uint64_t next_tensor = 0;
    std::uint64_t used = 0;
    for (const AxesRecord& axes : t_.axes) {
      if (axes.tensor < next_tensor || axes.tensor >= t_.tensors.size() || axes.first != used) {
        return bad(ErrorCode::kTensorInvalid, "axis names are out of order", axes);
      }
      const auto rank = table_shape(t_, t_.tensors[axes.tensor].shape).size();
      if (rank == 0 || !range_fits(used, rank, t_.axis_names.size())) {
        return bad(ErrorCode::kTensorInvalid, "axis names do not fit their tensor", axes);
      }
      next_tensor = std::uint64_t{axes.tensor} + 1;
      used += rank;
    }
    if (used != t_.axis_names.size()) {
      return bad_table(ErrorCode::kTensorInvalid, "some axis names belong to no tensor");
    }
    for (const std::uint32_t& name : t_.axis_names) {
      if (name >= t_.text_ends.size()) {
        return bad(ErrorCode::kTensorInvalid, "an axis name is not in the string pool", name);
      }
      texts_.mark(name);
    }
    return true;
  }

  // What a tree takes when every text in it is copied, as it is when it becomes a Value.
  bool check_text_bytes() {
    const std::uint64_t uses = 2 * std::uint64_t{t_.nodes.size()} + t_.labels.size() +
                               t_.axis_names.size() + t_.tensors.size();
    if (longest_text_ <= limits_.text_bytes / std::max<std::uint64_t>(uses, 1)) return true;
    std::uint64_t bytes = 0;  // at most 2^31 in each of fewer than 2^32 uses
    const auto count = [&](std::uint32_t text) { bytes += table_text(t_, text).size(); };
    for (const NodeRecord& node : t_.nodes) {
      if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) count(node.key);
      if (node_kind(node) == Kind::kString) count(node.value);
    }
    for (const LabelRecord& label : t_.labels) count(label.text);
    for (const std::uint32_t name : t_.axis_names) count(name);
    for (const TensorRecord& tensor : t_.tensors) {
      if (tensor.block != 0) count(t_.blocks[tensor.block - 1u].name);
    }
    if (bytes <= limits_.text_bytes) return true;
    return bad_table(ErrorCode::kLimitExceeded,
                     "the texts of the tree take " + counted(bytes, "byte") +
                         ", counted wherever they are named, and Limits::text_bytes allows " +
                         std::to_string(limits_.text_bytes));
  }

  bool check_uses() {
    if (next_chunk_ != t_.chunks.size()) {
      return bad(ErrorCode::kChunkInvalid, "a chunk belongs to no tensor",
                 t_.chunks[static_cast<std::size_t>(next_chunk_)]);
    }
    if (const auto text = texts_.first_unused()) {
      return bad(ErrorCode::kTextInvalid, "a string is used by nothing", t_.text_ends[*text]);
    }
    if (const auto shape = shapes_.first_unused()) {
      return bad(ErrorCode::kTensorInvalid, "a shape is used by nothing", t_.shape_ends[*shape]);
    }
    if (const auto block = blocks_.first_unused()) {
      return bad(ErrorCode::kTensorInvalid, "a block type is used by nothing", t_.blocks[*block]);
    }
    return true;
  }

  bool check_end() {
    if (facts_.placement == Placement::kForeign) return true;
    if (used_features_ != facts_.features) {
      return bad_table(ErrorCode::kHeaderInvalid,
                       "the header's feature bits are not those of the chunks");
    }
    if (next_byte_ != facts_.files.front().length) {
      return reject(ErrorCode::kChunkInvalid, next_byte_, {},
                    "the last chunk does not end where the file does");
    }
    return true;
  }

  const Tables& t_;
  const FileFacts& facts_;
  const Limits& limits_;
  Uses texts_;
  Uses shapes_;
  Uses blocks_;
  static constexpr std::uint64_t kTooManyElements = ~std::uint64_t{0};  // for any dtype
  Derived derived_;
  std::uint64_t longest_text_ = 0;
  std::uint32_t next_tensor_ = 0;
  std::uint64_t next_chunk_ = 0;
  std::uint64_t next_value_byte_ = 0;
  std::size_t next_dict_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t next_byte_;
  std::uint64_t used_features_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<Derived> validate(const Tables& tables, const FileFacts& facts, const Limits& limits) {
  return Validator(tables, facts, limits).run();
}

std::string find_path(const Tables& t, std::uint32_t node) {
  std::vector<Key> keys;
  // Parents stand before their children, so one pass down meets them all: a search from the front
  // for each would let a deep tree of millions of nodes take minutes to refuse.
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
