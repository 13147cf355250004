#include "espalier/foreign/msgpack/tables.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/bigint.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"

namespace espalier {
namespace {

using Type = MsgpackNode::Type;

// The DType of numpy's or ml_dtypes' "bfloat16", here "bf16". numpy gives a byte to narrower
// elements, unlike our types of these names.
std::optional<DType> numpy_dtype(std::string_view name) {
  if (name == "bool") return DType::kBool;
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"float", "f"}, {"bfloat", "bf"}, {"int", "i"}, {"uint", "u"}, {"complex", "c"}};
  for (const auto& [prefix, ours] : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const auto dtype = dtype_from_name(std::string(ours) + std::string(name.substr(prefix.size())));
    return dtype && dtype_bits(*dtype) >= 8 ? dtype : std::nullopt;
  }
  return std::nullopt;
}

class Source {
 public:
  Source(const MsgpackTree& tree, const Limits& limits, MsgpackArraysBeside& beside, Notes& notes)
      : tree_(tree),
        beside_(beside),
        builder_(limits),
        notes_(notes),
        walk_(*this, builder_, limits) {}

  Result<OwnedTables> run() {
    builder_.reserve(tree_.nodes.size() / 2 + 2, tree_.tensors.size());
    const bool is_whole = walk_.run(0, kMetadata);
    auto tables = builder_.finish();
    if (tables) return tables;
    Error& error = tables.error();
    if (!is_whole) error.path = walk_.current_path();
    make_reader_error(error);
    if (builder_.repeated_key()) error.message = "a map has the same key twice";
    return propagate(tables);
  }

 private:
  friend class TreeWalk<Source>;

  // An array in chunks.
  struct Chunked {
    DType dtype = DType::kBool;
    std::vector<std::uint64_t> shape;
    std::vector<const MsgpackTree::Tensor*> chunks;
  };

  // For TreeWalk: the position of a value, or kMetadata for the empty dict.
  using Node = std::uint32_t;
  static constexpr Node kMetadata = std::numeric_limits<Node>::max();
  class Children {
   public:
    Children(const MsgpackTree& tree, Node parent) : tree_(tree) {
      if (parent == kMetadata) return;
      has_keys_ = tree.nodes[parent].type == Type::kMap;
      values_.reserve(tree.nodes[parent].size);
      for (Node at = parent + 1; at < parent + tree.nodes[parent].span;) {
        if (has_keys_) ++at;
        values_.push_back(at);
        at += tree.nodes[at].span;
      }
    }
    std::size_t size() const { return values_.size(); }
    bool has_keys() const { return has_keys_; }
    Node node(std::size_t i) const { return values_[i]; }
    KeyView key(std::size_t i) const {
      const MsgpackNode& key = tree_.nodes[values_[i] - 1];
      return key.type == Type::kText ? KeyView::of(key.as_text()) : KeyView::of(key.integer);
    }

   private:
    const MsgpackTree& tree_;
    bool has_keys_ = true;
    std::vector<Node> values_;
  };

  bool is_container(Node node) const {
    if (node == kMetadata) return true;
    const Type type = tree_.nodes[node].type;
    return type == Type::kArray || (type == Type::kMap && !chunked(node));
  }
  Children children(Node node) const { return {tree_, node}; }

  bool add(TableBuilder&, Node number, bool) {
    if (number == kMetadata) {
      builder_.container(Kind::kDict);
      return builder_.ok();
    }
    const MsgpackNode& node = tree_.nodes[number];
    switch (node.type) {
      case Type::kNil:
        builder_.null();
        break;
      case Type::kBool:
        builder_.boolean(node.integer != 0);
        break;
      case Type::kInteger:
        builder_.integer(node.integer);
        break;
      case Type::kUnsigned:
        // 64 bits are within every limit.
        if (const auto big = BigInt::from_decimal(std::to_string(node.number))) {
          builder_.bigint(big->bytes());
        }
        break;
      case Type::kReal:
        builder_.real(node.real);
        break;
      case Type::kComplex: {
        const auto& [real, imaginary] = tree_.complexes[static_cast<std::size_t>(node.number)];
        builder_.complex({real, imaginary});
        break;
      }
      case Type::kText:
        add_text(node.as_text());
        break;
      case Type::kBytes:
        builder_.bytes(as_bytes(node.as_text()));
        break;
      case Type::kExtension:
        add_extension(node);
        break;
      case Type::kArray:
        builder_.container(Kind::kList);
        break;
      case Type::kMap:
        add_map(number);
        break;
      case Type::kTensor:
      case Type::kScalar:
        add_tensor(tree_.tensors[static_cast<std::size_t>(node.number)],
                   node.type == Type::kScalar);
        break;
    }
    return builder_.ok();
  }

  void label(std::string text) { builder_.label(*labels_.insert(std::move(text)).first); }

  void warn(std::string message, Note::Kind kind = Note::Kind::kWarning) {
    notes_.add(
        {kind, notes_.is_listing() ? walk_.current_path() : std::string(), std::move(message)});
  }

  // A text, or the array that it stands for.
  void add_text(std::string_view text) {
    const auto* const found = beside_.find(text);
    if (found == nullptr) return builder_.string(text);
    for (const Note& note : found->notes) warn(note.message, note.kind);
    if (beside_.damage() && text == beside_.damaged_text()) {
      beside_.damage()->path = walk_.current_path();
    }
    const bool is_there = found->node->type == OrbaxNode::Type::kTensor;
    if (!is_there && found->node->type != OrbaxNode::Type::kPlaceholder) {
      add_orbax_node(builder_, *found->node);
      return;
    }
    const auto [known, is_new] = stood_for_.try_emplace(text, builder_.tensor_count());
    if (is_new) {
      add_orbax_node(builder_, *found->node);
      return;
    }
    warn("an earlier value of the file stands for the same array, so both are one (a tie)");
    if (!found->node->label.empty()) builder_.label(found->node->label);
    builder_.known_tensor(known->second, is_there ? Kind::kTensor : Kind::kPlaceholder);
  }

  void add_extension(const MsgpackNode& node) {
    const std::string type = std::to_string(node.extension);
    label("msgpack.extension." + type);
    builder_.bytes(as_bytes(node.as_text()));
    warn("flax has no meaning for the extension type " + type + "; its bytes are kept");
  }

  void add_tensor(const MsgpackTree::Tensor& tensor, bool is_scalar) {
    if (is_scalar) label("numpy." + std::string(tensor.dtype));
    const auto dtype = numpy_dtype(tensor.dtype);
    if (!dtype) return add_opaque(tensor);
    const auto bytes = usual_tensor_bytes(*dtype, tensor.shape);
    if (bytes != tensor.bytes) return refuse_bytes(tensor);
    builder_.tensor({*dtype, tensor.shape});
    builder_.place(0, tensor.offset);
  }

  // An array of elements that only numpy knows, such as times and texts.
  void add_opaque(const MsgpackTree::Tensor& tensor) {
    std::optional<std::uint64_t> elements = 1;
    for (const std::uint64_t axis : tensor.shape) {
      if (elements) elements = checked_mul(*elements, axis);
    }
    const std::uint64_t width =
        elements.value_or(0) == 0 ? std::uint64_t{1} : tensor.bytes / *elements;
    if (!elements || width == 0 || width > std::numeric_limits<std::uint32_t>::max() ||
        width * *elements != tensor.bytes) {
      return refuse_bytes(tensor);
    }
    std::vector<std::uint64_t> shape = tensor.shape;
    // Opaque tensors have an axis along which their blocks lie.
    if (shape.empty()) shape.push_back(1);
    warn("the dtype '" + std::string(tensor.dtype) + "' has no counterpart, so each element is " +
         counted(width, "byte") + " without a meaning");
    builder_.tensor({DType::kOpaque, shape, {tensor.dtype, 1, static_cast<std::uint32_t>(width)}});
    builder_.place(0, tensor.offset);
  }

  void refuse_bytes(const MsgpackTree::Tensor& tensor) {
    builder_.refuse("the array has " + counted(tensor.bytes, "byte") +
                        ", which do not fit its shape and its dtype '" + std::string(tensor.dtype) +
                        "'",
                    ErrorCode::kForeignInvalid);
  }

  void add_map(Node number) {
    const auto array = chunked(number);
    if (!array) {
      if (is_marked(number)) {
        warn("this looks like an array in chunks, but they cannot be joined; it stays a dict");
      }
      return builder_.container(Kind::kDict);
    }
    builder_.tensor({array->dtype, array->shape});
    for (const MsgpackTree::Tensor* chunk : array->chunks) {
      for (std::uint64_t i = 0; i < chunk_count(chunk->bytes) && builder_.ok(); ++i) {
        builder_.place_chunk({.offset = chunk->offset + i * kChunkBytes,
                              .hash = {},
                              .stored = static_cast<std::uint32_t>(chunk_length(chunk->bytes, i))});
      }
    }
  }

  bool is_marked(Node number) const {
    const MsgpackNode& map = tree_.nodes[number];
    return map.size == 3 && tree_.nodes[number + 1].type == Type::kText &&
           tree_.nodes[number + 1].as_text() == "__msgpack_chunked_array__";
  }

  // The values of a map with the keys "0", "1", "2"...; nothing if it has others.
  std::optional<std::vector<Node>> tuple(Node number) const {
    if (tree_.nodes[number].type != Type::kMap) return std::nullopt;
    const Children children(tree_, number);
    std::vector<Node> values;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const KeyView key = children.key(i);
      if (key.is_int || key.text != std::to_string(i)) return std::nullopt;
      values.push_back(children.node(i));
    }
    return values;
  }

  // An array that flax has cut: {"__msgpack_chunked_array__": True, "shape": {"0": ...},
  // "chunks": {"0": ...}}. Nothing for another map, or if the chunks are not whole MiB.
  std::optional<Chunked> chunked(Node number) const {
    if (!is_marked(number)) return std::nullopt;
    const Children members(tree_, number);
    const MsgpackNode& mark = tree_.nodes[members.node(0)];
    const KeyView second = members.key(1);
    const KeyView third = members.key(2);
    if (mark.type != Type::kBool || second.is_int || second.text != "shape" || third.is_int ||
        third.text != "chunks") {
      return std::nullopt;
    }
    const auto shape = tuple(members.node(1));
    const auto chunks = tuple(members.node(2));
    if (!shape || !chunks || chunks->empty()) return std::nullopt;
    Chunked array;
    for (const Node axis : *shape) {
      const MsgpackNode& node = tree_.nodes[axis];
      if (node.type != Type::kInteger || node.integer < 0) return std::nullopt;
      array.shape.push_back(static_cast<std::uint64_t>(node.integer));
    }
    std::uint64_t bytes = 0;  // at most those of the file
    std::string_view name;
    for (const Node chunk : *chunks) {
      if (tree_.nodes[chunk].type != Type::kTensor) return std::nullopt;
      const auto& tensor = tree_.tensors[static_cast<std::size_t>(tree_.nodes[chunk].number)];
      if (array.chunks.empty()) name = tensor.dtype;
      if (tensor.dtype != name || tensor.bytes == 0 || bytes % kChunkBytes != 0) {
        return std::nullopt;
      }
      bytes += tensor.bytes;
      array.chunks.push_back(&tensor);
    }
    const auto dtype = numpy_dtype(name);
    if (!dtype || usual_tensor_bytes(*dtype, array.shape) != bytes) return std::nullopt;
    array.dtype = *dtype;
    return array;
  }

  const MsgpackTree& tree_;
  MsgpackArraysBeside& beside_;
  TableBuilder builder_;
  // The number of the tensor that stands in place of a text.
  std::map<std::string_view, std::uint32_t> stood_for_;
  Notes& notes_;
  TreeWalk<Source> walk_;
  std::set<std::string> labels_;  // which do not move
};

}  // namespace

Result<OwnedTables> msgpack_tables(const MsgpackTree& tree, const Limits& limits,
                                   MsgpackArraysBeside& beside, Notes& notes) {
  return Source(tree, limits, beside, notes).run();
}

}  // namespace espalier
