#include "espalier/foreign/gguf/tables.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/little_endian.h"
#include "espalier/base/utf8.h"
#include "espalier/bigint.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"

namespace espalier {
namespace {

// Labels of values by GgufType. Kinds alone say what strings and bools are.
constexpr std::string_view kLabels[kLastGgufType + 1] = {
    "gguf.u8", "gguf.i8", "gguf.u16", "gguf.i16", "gguf.u32", "gguf.i32", "gguf.f32",
    "",        "",        "",         "gguf.u64", "gguf.i64", "gguf.f64"};
constexpr std::string_view kArrayLabels[kLastGgufType + 1] = {
    "gguf.array.u8",  "gguf.array.i8",  "gguf.array.u16",  "gguf.array.i16",    "gguf.array.u32",
    "gguf.array.i32", "gguf.array.f32", "gguf.array.bool", "gguf.array.string", "",
    "gguf.array.u64", "gguf.array.i64", "gguf.array.f64"};

class GgufTables {
 public:
  GgufTables(std::span<const GgufPart> parts, const Limits& limits)
      : parts_(parts), limits_(limits), builder_(limits) {}

  Result<OwnedTables> run() {
    if (auto ok = reserve(); !ok) return propagate(ok);
    builder_.container(Kind::kDict);
    builder_.container(Kind::kDict);
    add_tensors();
    add_metadata();
    auto tables = builder_.finish();
    if (!tables) return explain(tables);
    return tables;
  }

 private:
  ByteSpan piece(const GgufPart& part, GgufPiece piece) const {
    return part.bytes.subspan(piece.offset, piece.length);
  }
  std::string_view text(const GgufPart& part, GgufPiece text) const {
    return as_text(piece(part, text));
  }

  // Growing vectors would take twice the memory.
  Result<void> reserve() {
    // The state. Each part has a dict of pairs.
    std::uint64_t nodes = 1;
    std::size_t tensors = 0;
    for (const GgufPart& part : parts_) {
      tensors += part.header->tensors().size();
      nodes += part.header->tensors().size() + part.header->pairs().size() +
               part.header->array_elements() + 1;
    }
    if (nodes > limits_.nodes) {
      return fail(ErrorCode::kLimitExceeded, "the file has " + std::to_string(nodes) +
                                                 " tensors and values and Limits::nodes allows " +
                                                 std::to_string(limits_.nodes));
    }
    builder_.reserve(static_cast<std::size_t>(nodes), tensors);
    tensor_count_ = tensors;
    return {};
  }

  void add_tensors() {
    if (!builder_.open(kStateRoot, tensor_count_)) return;
    for (const GgufPart& part : parts_) {
      for (const GgufTensor& tensor : part.header->tensors()) {
        const GgufTensorType type = gguf_tensor_type(tensor.type);
        builder_.key(KeyView::of(text(part, tensor.name)));
        builder_.tensor({type.dtype, part.header->shape(tensor), type.block()});
        builder_.place(part.file, part.header->data_begin() + tensor.offset);
        if (!builder_.ok()) return;
      }
    }
  }

  // The pairs of a further part that stand in the tree.
  static std::vector<GgufPair> own_pairs(const GgufPart& part) {
    std::vector<GgufPair> pairs;
    for (const GgufPair& pair : part.header->pairs()) {
      const ByteSpan key = part.bytes.subspan(pair.key.offset, pair.key.length);
      if (!as_text(key).starts_with("split.")) pairs.push_back(pair);
    }
    return pairs;
  }

  void add_metadata() {
    struct More {
      const GgufPart* part;
      std::vector<GgufPair> pairs;
    };
    std::vector<More> further;
    for (const GgufPart& part : parts_.subspan(1)) {
      if (auto pairs = own_pairs(part); !pairs.empty())
        further.push_back({&part, std::move(pairs)});
    }
    const auto pairs = parts_.front().header->pairs();
    std::uint32_t at = builder_.node_count();
    if (!builder_.open(kMetadataRoot, pairs.size() + further.size())) return;
    add_pairs(parts_.front(), pairs);
    for (const More& more : further) {
      builder_.key(KeyView::of(more.part->file_name));
      builder_.container(Kind::kDict);
    }
    at = add_arrays(parts_.front(), pairs, at);
    for (const More& more : further) {
      const std::uint32_t first = builder_.node_count();
      if (!builder_.open(at++, more.pairs.size())) return;
      add_pairs(*more.part, more.pairs);
      add_arrays(*more.part, more.pairs, first);
    }
  }

  void add_pairs(const GgufPart& part, std::span<const GgufPair> pairs) {
    for (const GgufPair& pair : pairs) {
      if (!builder_.key(KeyView::of(text(part, pair.key)))) return;
      const bool is_array = pair.type == GgufType::kArray;
      const auto type = static_cast<std::size_t>(is_array ? pair.element : pair.type);
      const std::string_view label = (is_array ? kArrayLabels : kLabels)[type];
      if (!label.empty()) builder_.label(label);
      if (!is_array) {
        add_value(pair.type, piece(part, pair.value));
      } else if (pair.element == GgufType::kU8) {
        builder_.bytes(piece(part, pair.value));
      } else {
        builder_.container(Kind::kList);
      }
    }
  }

  // The elements of the arrays among `pairs`, whose nodes are `node` and those after it. Gives the
  // number after theirs.
  std::uint32_t add_arrays(const GgufPart& part, std::span<const GgufPair> pairs,
                           std::uint32_t node) {
    for (const GgufPair& pair : pairs) {
      const std::uint32_t array = node++;
      if (!pair.has_elements()) continue;
      if (!builder_.open(array, pair.count)) return node;
      ByteSpan rest = piece(part, pair.value);
      const std::size_t width = gguf_type_width(pair.element);
      const std::size_t length_width = part.header->size_width();
      for (std::uint32_t i = 0; i < pair.count; ++i) {
        std::size_t length = width;
        if (width == 0) {
          length = length_width == 4
                       ? load_le<std::uint32_t>(rest.data())
                       : static_cast<std::size_t>(load_le<std::uint64_t>(rest.data()));
          rest = rest.subspan(length_width);
        }
        add_value(pair.element, rest.first(length));
        rest = rest.subspan(length);
      }
      if (!builder_.ok()) return node;
    }
    return node;
  }

  void add_value(GgufType type, ByteSpan value) {
    const std::byte* at = value.data();
    switch (type) {
      case GgufType::kU8:
        return builder_.integer(load_le<std::uint8_t>(at));
      case GgufType::kI8:
        return builder_.integer(load_le<std::int8_t>(at));
      case GgufType::kU16:
        return builder_.integer(load_le<std::uint16_t>(at));
      case GgufType::kI16:
        return builder_.integer(load_le<std::int16_t>(at));
      case GgufType::kU32:
        return builder_.integer(load_le<std::uint32_t>(at));
      case GgufType::kI32:
        return builder_.integer(load_le<std::int32_t>(at));
      case GgufType::kF32:
        return builder_.real(static_cast<double>(load_le<float>(at)));
      case GgufType::kBool:
        return builder_.boolean(*at != std::byte{0});
      case GgufType::kU64:
        return add_u64(load_le<std::uint64_t>(at));
      case GgufType::kI64:
        return builder_.integer(load_le<std::int64_t>(at));
      case GgufType::kF64:
        return builder_.real(load_le<double>(at));
      case GgufType::kString:
      case GgufType::kArray:
        break;
    }
    if (find_invalid_utf8(value)) {
      builder_.bytes(value);
    } else {
      builder_.string(as_text(value));
    }
  }

  void add_u64(std::uint64_t value) {
    if (value >> 63 == 0) return builder_.integer(static_cast<std::int64_t>(value));
    // One byte more than a u64 has, so that the sign is plus.
    std::array<std::byte, 9> bytes{};
    if (bytes.size() > limits_.bigint_bytes) {
      return builder_.refuse("a u64 takes more bytes than Limits::bigint_bytes allows",
                             ErrorCode::kLimitExceeded);
    }
    store_le(bytes.data(), value);
    builder_.bigint(bytes);
  }

  // Rewords `failed` in terms of the file, if it is about equal keys.
  tl::unexpected<Error> explain(Result<OwnedTables>& failed) const {
    const auto node = builder_.repeated_key();
    if (!node) return propagate(failed);
    failed.error().code = ErrorCode::kForeignInvalid;
    failed.error().message = *node - (kMetadataRoot + 1) < tensor_count_
                                 ? "two tensors have the same name"
                                 : "two key-value pairs have the same key";
    return propagate(failed);
  }

  const std::span<const GgufPart> parts_;
  const Limits& limits_;
  TableBuilder builder_;
  std::size_t tensor_count_ = 0;
};

}  // namespace

Result<OwnedTables> gguf_tables(std::span<const GgufPart> parts, const Limits& limits) {
  return GgufTables(parts, limits).run();
}

}  // namespace espalier
