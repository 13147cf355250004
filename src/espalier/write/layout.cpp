#include "espalier/write/layout.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/format/access.h"
#include "espalier/format/find_path.h"
#include "espalier/format/header.h"
#include "espalier/format/shape.h"
#include "espalier/format/validate.h"

namespace espalier {
namespace {

// Gives texts their numbers: in order of arrival at first, sorted in the end.
class TextPool {
 public:
  /// Room for `texts` without growing, which would leave freed memory with the process.
  void reserve(std::size_t texts) { texts_.reserve(texts); }

  /// The provisional number of `text`, which must stay where it is.
  std::uint32_t add(std::string_view text) {
    if (2 * texts_.size() >= slots_.size()) grow();
    std::uint32_t& slot = slot_of(text);
    if (slot == kFree) {
      slot = static_cast<std::uint32_t>(texts_.size());
      texts_.push_back(text);
    }
    return slot;
  }

  /// Writes the sorted pool; afterwards final_number() tells where each text went, and add() must
  /// not be called.
  void finish(OwnedTables& tables) {
    slots_ = {};
    std::vector<std::uint32_t> sorted(texts_.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(),
              [&](std::uint32_t a, std::uint32_t b) { return texts_[a] < texts_[b]; });
    final_.resize(texts_.size());
    std::size_t bytes = 0;
    for (const std::string_view text : texts_) bytes += text.size();
    tables.text.reserve(bytes);
    tables.text_ends.reserve(texts_.size());
    for (std::uint32_t rank = 0; rank < sorted.size(); ++rank) {
      const std::string_view text = texts_[sorted[rank]];
      final_[sorted[rank]] = rank;
      tables.text.insert(tables.text.end(), text.begin(), text.end());
      tables.text_ends.push_back(static_cast<std::uint32_t>(tables.text.size()));
    }
    texts_ = {};
  }

  std::uint32_t final_number(std::uint32_t provisional) const { return final_[provisional]; }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};

  // Where the number of `text` stands, or belongs.
  std::uint32_t& slot_of(std::string_view text) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = std::hash<std::string_view>()(text) & mask;
    while (slots_[i] != kFree && texts_[slots_[i]] != text) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), kFree);
    for (std::uint32_t number = 0; number < texts_.size(); ++number) {
      slot_of(texts_[number]) = number;
    }
  }

  std::vector<std::string_view> texts_;
  // A hash table with linear probing: names may be as many as tensors, and a node of a
  // std::unordered_set for each takes ten times the memory, which stays with the process when
  // freed.
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> final_;
};

struct ShapeLess {
  bool operator()(const std::vector<std::uint64_t>* a, const std::vector<std::uint64_t>* b) const {
    return a->size() != b->size() ? a->size() < b->size() : *a < *b;
  }
};

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const Limits& limits) : limits_(limits) {}

  Result<Layout> run(const Value& state, const Value& metadata) {
    if (metadata.kind() != Kind::kDict) {
      return fail(ErrorCode::kInvalidTree, "the metadata must be a dict");
    }
    reserve(state, metadata);
    if (auto ok = add_tree(state, metadata); !ok) {
      if (ok.error().path.empty()) ok.error().path = current_path();
      return propagate(ok);
    }
    finish_pools();
    for (std::uint32_t node = 0; node < t_.nodes.size(); ++node) {
      if (auto ok = add_order(node); !ok) return propagate(ok);
    }
    return encode();
  }

 private:
  // The children of a container, on the way down the tree.
  struct Level {
    const Value* parent;
    std::uint32_t first;  // node of the first child
    std::uint32_t next;   // position of the child to descend into next; the current one is before
  };

  // Growing as they are filled, the vectors would take two or three times the memory at their peak.
  void reserve(const Value& state, const Value& metadata) {
    std::size_t nodes = 2;
    std::vector<const Tensor*> tensors;
    if (state.kind() == Kind::kTensor) tensors.push_back(state.as_tensor().get());
    std::vector<std::span<const Value>> rest = {state.children(), metadata.children()};
    while (!rest.empty()) {
      const auto values = rest.back();
      rest.pop_back();
      nodes += values.size();
      for (const Value& value : values) {
        if (value.kind() == Kind::kTensor) {
          tensors.push_back(value.as_tensor().get());
        } else if (is_container(value.kind())) {
          rest.push_back(value.children());
        }
      }
    }
    t_.nodes.reserve(nodes);
    texts_.reserve(nodes);
    t_.tensors.reserve(tensors.size());
    tensors_.reserve(tensors.size());
    // Only tied tensors are remembered: a map of all would take as much memory as the index.
    std::sort(tensors.begin(), tensors.end(), std::less<>());
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i] == tensors[i - 1]) tied_.emplace(tensors[i], kNoNumber);
    }
  }

  // Adds every value in the order that docs/format.md section 4 prescribes. It uses a stack of its
  // own: a tree too deep for a reader must come out as an error.
  Result<void> add_tree(const Value& state, const Value& metadata) {
    t_.nodes.resize(kMetadataRoot + 1);
    for (const auto& [root, value] : {std::pair(kStateRoot, &state), {kMetadataRoot, &metadata}}) {
      in_metadata_ = root == kMetadataRoot;
      if (auto ok = add_value(root, *value); !ok) return ok;
    }
    for (const auto& [root, value] : {std::pair(kStateRoot, &state), {kMetadataRoot, &metadata}}) {
      in_metadata_ = root == kMetadataRoot;
      if (auto ok = add_children(root, *value); !ok) return ok;
      while (!levels_.empty()) {
        Level& level = levels_.back();
        if (level.next == level.parent->children().size()) {
          levels_.pop_back();
          continue;
        }
        const std::uint32_t child = level.next++;
        if (auto ok = add_children(level.first + child, level.parent->children()[child]); !ok) {
          return ok;
        }
      }
    }
    return {};
  }

  // Gives the children of node `index` the next free nodes.
  Result<void> add_children(std::uint32_t index, const Value& parent) {
    if (!is_container(parent.kind())) return {};
    const auto children = parent.children();
    const std::size_t first = t_.nodes.size();
    if (children.size() > limits_.nodes - std::min<std::uint64_t>(limits_.nodes, first)) {
      return fail(ErrorCode::kInvalidTree, "the tree has more nodes than the " +
                                               std::to_string(limits_.nodes) +
                                               " that readers accept (Limits::nodes)");
    }
    t_.nodes[index].value = static_cast<std::uint32_t>(first);
    t_.nodes[index].count = static_cast<std::uint32_t>(children.size());
    if (children.empty()) return {};
    if (levels_.size() >= limits_.depth) {
      return fail(ErrorCode::kInvalidTree, "the tree is deeper than the " +
                                               counted(limits_.depth, "level") +
                                               " that readers accept (Limits::depth)");
    }
    t_.nodes.resize(t_.nodes.size() + children.size());
    const auto keys = parent.keys();
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      if (auto ok = add_key(t_.nodes[first + i], keys[i].view(), parent.kind()); !ok) return ok;
    }
    levels_.push_back({&parent, static_cast<std::uint32_t>(first), 0});
    std::uint32_t& next = levels_.back().next;
    for (const Value& child : children) {
      ++next;  // for current_path()
      if (auto ok = add_value(levels_.back().first + next - 1, child); !ok) return ok;
    }
    next = 0;
    return {};
  }

  Result<void> add_key(NodeRecord& node, const KeyView& key, Kind parent) {
    if (key.is_int) {
      if (parent == Kind::kRecord) {
        return fail(ErrorCode::kInvalidTree, "a record has the int key " +
                                                 std::to_string(key.integer) +
                                                 "; fields of records are named, so use a dict");
      }
      // The word follows when the node's turn comes.
      node.key_kind = static_cast<std::uint8_t>(KeyKind::kInt);
      return {};
    }
    auto text = add_text(key.text, "a key");
    if (!text) return propagate(text);
    node.key_kind = static_cast<std::uint8_t>(KeyKind::kText);
    node.key = *text;
    return {};
  }

  Result<std::uint32_t> add_text(std::string_view text, const char* what) {
    if (const auto invalid = find_invalid_utf8(text)) {
      return fail(ErrorCode::kInvalidTree, std::string(what) + " is not UTF-8 at its byte " +
                                               std::to_string(*invalid) +
                                               "; store such data as bytes");
    }
    return texts_.add(text);
  }

  Result<void> add_value(std::uint32_t index, const Value& value) {
    NodeRecord& node = t_.nodes[index];
    node.kind = static_cast<std::uint8_t>(value.kind());
    if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
      node.key = add_word(current_key(levels_.back()).integer);
    }
    if (value.has_label()) {
      auto text = add_text(value.label(), "a label");
      if (!text) return propagate(text);
      t_.labels.push_back({index, *text});
    }
    switch (value.kind()) {
      case Kind::kNull:
      case Kind::kDict:
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kRecord:
        return {};
      case Kind::kBool:
        node.value = value.as_bool().value_or(false) ? 1 : 0;
        return {};
      case Kind::kInt64:
        node.value = add_word(value.as_int64().value_or(0));
        return {};
      case Kind::kFloat64:
        node.value = add_word(value.as_double().value_or(0));
        return {};
      case Kind::kComplex128: {
        const auto number = value.as_complex().value_or(std::complex<double>());
        node.value = add_word(number.real());
        add_word(number.imag());
        return {};
      }
      case Kind::kString: {
        auto text = add_text(*value.as_string(), "a string");
        if (!text) return propagate(text);
        node.value = *text;
        return {};
      }
      case Kind::kBytes:
        return add_bytes(node, *value.as_bytes());
      case Kind::kBigInt:
        if (value.as_bigint()->bytes().size() > limits_.bigint_bytes) {
          return fail(ErrorCode::kInvalidTree, "an integer takes more than the " +
                                                   counted(limits_.bigint_bytes, "byte") +
                                                   " that readers accept (Limits::bigint_bytes)");
        }
        return add_bytes(node, value.as_bigint()->bytes());
      case Kind::kTensor:
      case Kind::kPlaceholder:
        return add_tensor(index, value.as_tensor());
    }
    return {};
  }

  template <class T>
  std::uint32_t add_word(T value) {
    t_.words.push_back(bits_as<std::uint64_t>(value));
    return static_cast<std::uint32_t>(t_.words.size() - 1);
  }

  Result<void> add_bytes(NodeRecord& node, ByteSpan bytes) {
    if (bytes.size() > std::uint64_t{0x7FFFFFFF} - t_.bytes.size()) {
      return fail(ErrorCode::kInvalidTree,
                  "values of kind bytes take more than 2 GiB together; store them as u8 tensors");
    }
    node.value = static_cast<std::uint32_t>(t_.bytes.size());
    node.count = static_cast<std::uint32_t>(bytes.size());
    t_.bytes.insert(t_.bytes.end(), bytes.begin(), bytes.end());
    return {};
  }

  Result<void> add_tensor(std::uint32_t index, std::shared_ptr<const Tensor> tensor) {
    if (tensor == nullptr) {
      return fail(ErrorCode::kInvalidTree,
                  "a tensor was moved out of the tree before the save; copy its Value instead");
    }
    if (in_metadata_) {
      return fail(ErrorCode::kInvalidTree, "the metadata holds a tensor; put it into the state");
    }
    const auto number = static_cast<std::uint32_t>(t_.tensors.size());
    t_.nodes[index].value = number;
    // A placeholder is its own; tensors that are one object are stored once.
    if (const auto tied = tied_.find(tensor.get()); tied != tied_.end()) {
      if (tied->second != kNoNumber) {
        t_.nodes[index].value = tied->second;
        return {};
      }
      tied->second = number;
    }
    if (auto ok = describe_tensor(number, *tensor); !ok) return ok;
    tensors_.push_back(std::move(tensor));
    return {};
  }

  Result<void> describe_tensor(std::uint32_t number, const Tensor& tensor) {
    if (!dtype_from_number(static_cast<std::uint8_t>(tensor.dtype))) {
      return fail(ErrorCode::kInvalidTree, "a tensor has no valid dtype");
    }
    const std::uint32_t max_rank = std::min(limits_.rank, kMaxRank);
    if (tensor.shape.size() > max_rank) {
      return fail(ErrorCode::kInvalidTree, "a tensor has " + counted(tensor.shape.size(), "axis") +
                                               " and readers accept " + std::to_string(max_rank) +
                                               " (Limits::rank)");
    }
    TensorRecord record;
    record.dtype = static_cast<std::uint8_t>(tensor.dtype);
    if (auto ok = add_block(tensor, record); !ok) return ok;
    auto bytes = tensor_bytes(tensor.dtype, tensor.shape, tensor.block());
    if (!bytes) {
      bytes.error().code = ErrorCode::kInvalidTree;
      return propagate(bytes);
    }
    if (const auto memory = tensor.data.memory(); memory && memory->size() != *bytes) {
      return fail(ErrorCode::kInvalidTree, "a tensor's dtype and shape take " +
                                               counted(*bytes, "byte") + ", but its data have " +
                                               std::to_string(memory->size()));
    }
    record.shape = shapes_.try_emplace(&tensor.shape, static_cast<std::uint32_t>(shapes_.size()))
                       .first->second;
    if (auto ok = add_axis_names(number, tensor); !ok) return ok;
    if (tensor.data.is_placeholder()) {
      record.first_chunk = kNoChunk;
    } else {
      const std::uint64_t chunks = chunk_count(*bytes);
      // Before the records take any memory.
      if (chunks > kMaxIndexBytes / sizeof(ChunkRecord) - chunk_count_) {
        return fail(
            ErrorCode::kInvalidTree,
            "the tensors take more than the 64 TiB of which an index has room for the chunks");
      }
      record.first_chunk = static_cast<std::uint32_t>(chunk_count_);
      chunk_count_ += chunks;
    }
    t_.tensors.push_back(record);
    return {};
  }

  Result<void> add_block(const Tensor& tensor, TensorRecord& record) {
    if (tensor.dtype != DType::kOpaque) {
      if (tensor.block_name.empty() && tensor.block_elements == 0 && tensor.block_bytes == 0) {
        return {};
      }
      return fail(ErrorCode::kInvalidTree, "only a tensor of dtype opaque has a block type");
    }
    if (tensor.block_elements == 0 || tensor.block_bytes == 0) {
      return fail(ErrorCode::kInvalidTree,
                  "the block type of an opaque tensor needs elements and bytes above 0");
    }
    auto name = add_text(tensor.block_name, "the name of a block type");
    if (!name) return propagate(name);
    const auto number =
        blocks_
            .try_emplace({tensor.block_name, tensor.block_elements, tensor.block_bytes},
                         Block{static_cast<std::uint16_t>(blocks_.size() + 1), *name})
            .first->second.number;
    if (blocks_.size() > 0xFFFF) {
      return fail(ErrorCode::kInvalidTree, "there are more than 65535 block types");
    }
    record.block = number;
    return {};
  }

  Result<void> add_axis_names(std::uint32_t number, const Tensor& tensor) {
    if (tensor.axis_names.empty()) return {};
    if (tensor.axis_names.size() != tensor.shape.size()) {
      return fail(ErrorCode::kInvalidTree, "a tensor of " + counted(tensor.shape.size(), "axis") +
                                               " has " +
                                               counted(tensor.axis_names.size(), "axis name"));
    }
    t_.axes.push_back({number, static_cast<std::uint32_t>(t_.axis_names.size())});
    for (const std::string& name : tensor.axis_names) {
      auto text = add_text(name, "the name of an axis");
      if (!text) return propagate(text);
      t_.axis_names.push_back(*text);
    }
    return {};
  }

  // All that refers to a pool gets its final number.
  void finish_pools() {
    texts_.finish(t_);
    const auto renumber = [&](std::uint32_t& text) { text = texts_.final_number(text); };
    for (NodeRecord& node : t_.nodes) {
      if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) renumber(node.key);
      if (node_kind(node) == Kind::kString) renumber(node.value);
    }
    for (LabelRecord& label : t_.labels) renumber(label.text);
    for (std::uint32_t& name : t_.axis_names) renumber(name);

    std::vector<std::uint32_t> final_shapes(shapes_.size());
    for (const auto& [shape, provisional] : shapes_) {
      final_shapes[provisional] = static_cast<std::uint32_t>(t_.shape_ends.size());
      t_.dims.insert(t_.dims.end(), shape->begin(), shape->end());
      t_.shape_ends.push_back(static_cast<std::uint32_t>(t_.dims.size()));
    }
    std::vector<std::uint16_t> final_blocks(blocks_.size() + 1);
    for (const auto& [block, provisional] : blocks_) {
      const auto& [name, elements, bytes] = block;
      t_.blocks.push_back({texts_.final_number(provisional.name), elements, bytes});
      final_blocks[provisional.number] = static_cast<std::uint16_t>(t_.blocks.size());
    }
    for (TensorRecord& tensor : t_.tensors) {
      tensor.shape = final_shapes[tensor.shape];
      tensor.block = final_blocks[tensor.block];
    }
  }

  // Finds equal keys, and records the order of the keys of a large dict.
  Result<void> add_order(std::uint32_t index) {
    const NodeRecord& node = t_.nodes[index];
    if (!has_keys(node_kind(node)) || node.count < 2) return {};
    const auto child = [&](std::uint32_t position) -> const NodeRecord& {
      return t_.nodes[node.value + position];
    };
    const Tables tables = t_.view();
    std::uint32_t ascending = 1;
    while (ascending < node.count && key_less(tables, child(ascending - 1), child(ascending))) {
      ++ascending;
    }
    if (ascending == node.count) return {};
    std::vector<std::uint32_t> sorted(node.count);
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
      return key_less(tables, child(a), child(b));
    });
    for (std::uint32_t i = 1; i < node.count; ++i) {
      if (key_less(tables, child(sorted[i - 1]), child(sorted[i]))) continue;
      const std::uint32_t twice = node.value + std::max(sorted[i - 1], sorted[i]);
      return fail(ErrorCode::kInvalidTree, "a container has the same key twice", Error::kNoOffset,
                  find_path(tables, twice));
    }
    if (node.count > kSmallDict) {
      t_.dict_orders.push_back({index, static_cast<std::uint32_t>(t_.order.size())});
      t_.order.insert(t_.order.end(), sorted.begin(), sorted.end());
    }
    return {};
  }

  Result<Layout> encode() {
    // A state of millions of tensors takes as much memory here as its index does: no more than
    // needed.
    tied_ = {};
    auto encoded = EncodedIndex::encode(std::move(t_), static_cast<std::size_t>(chunk_count_));
    if (!encoded) {
      if (encoded.error().code == ErrorCode::kLimitExceeded) {
        encoded.error().code = ErrorCode::kInvalidTree;
      }
      return propagate(encoded);
    }
    Layout layout(std::move(*encoded));
    layout.tensors = std::move(tensors_);
    const Tables t = layout.index.tables();
    const std::uint64_t data_begin = kHeaderBytes + layout.index.bytes().size();
    std::uint64_t end = data_begin;
    const auto chunks = layout.index.chunks();
    for (const TensorRecord& tensor : t.tensors) {
      if (tensor.first_chunk == kNoChunk) continue;
      const std::uint64_t bytes = table_tensor_bytes(t, tensor);
      for (std::uint64_t i = 0; i < chunk_count(bytes); ++i) {
        ChunkRecord& chunk = chunks[static_cast<std::size_t>(tensor.first_chunk + i)];
        chunk.stored = static_cast<std::uint32_t>(chunk_length(bytes, i));
        const auto begin = i == 0 ? checked_align(end, kTensorAlignment) : end;
        const auto next = begin ? checked_add(*begin, chunk.stored) : std::nullopt;
        if (!next || *next > std::uint64_t{1} << 62) {
          return fail(ErrorCode::kInvalidTree, "the file would be larger than 2^62 bytes");
        }
        chunk.offset = *begin;
        end = *next;
      }
    }
    layout.file_length = end;
    // What our own reader would refuse must not be written: this is where limits on paths and the
    // like are enforced, by the one function that knows them all.
    const FileEntry file{.length = end, .data_begin = data_begin};
    const FileFacts facts{.placement = Placement::kCanonical, .files = std::span(&file, 1)};
    if (auto valid = validate(t, facts, limits_); !valid) {
      valid.error().code = ErrorCode::kInvalidTree;
      return propagate(valid);
    }
    return layout;
  }

  static KeyView current_key(const Level& level) {
    const auto keys = level.parent->keys();
    const std::uint32_t position = level.next - 1;
    return keys.empty() ? KeyView::of(std::int64_t{position}) : keys[position].view();
  }

  // The path of the value that is being added.
  std::string current_path() const {
    std::string path = in_metadata_ ? "(metadata)" : "";
    for (const Level& level : levels_) append_path(path, current_key(level));
    return path;
  }

  // Provisional numbers.
  struct Block {
    std::uint16_t number;
    std::uint32_t name;
  };

  Limits limits_;
  OwnedTables t_;
  std::vector<std::shared_ptr<const Tensor>> tensors_;  // by number
  std::vector<Level> levels_;
  bool in_metadata_ = false;
  std::uint64_t chunk_count_ = 0;
  TextPool texts_;
  std::map<const std::vector<std::uint64_t>*, std::uint32_t, ShapeLess> shapes_;
  std::map<std::tuple<std::string_view, std::uint32_t, std::uint32_t>, Block> blocks_;
  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};
  std::unordered_map<const Tensor*, std::uint32_t> tied_;  // their numbers, once they have one
};

}  // namespace

Result<Layout> lay_out(const Value& state, const Value& metadata, const Limits& limits) {
  return LayoutBuilder(limits).run(state, metadata);
}

}  // namespace espalier
