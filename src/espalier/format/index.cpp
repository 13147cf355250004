#include "espalier/format/index.h"

#include <string>
#include <type_traits>

#include "espalier_generated.h"
#include <flatbuffers/flatbuffers.h>

#include "espalier/format/index_layout.h"

namespace espalier {
namespace {

// Our records and the generated structs are the same bytes; this holds them to it.
template <class Ours, class Generated>
constexpr bool same_layout() {
  return sizeof(Ours) == sizeof(Generated) &&
         alignof(Ours) ==
             alignof(Generated) &&  // NOLINT(misc-redundant-expression): on this machine
         std::is_trivially_copyable_v<Ours> &&
         std::is_standard_layout_v<Ours>;
}
static_assert(same_layout<NodeRecord, fbs::Node>());
static_assert(same_layout<TensorRecord, fbs::Tensor>());
static_assert(same_layout<ChunkRecord, fbs::Chunk>());
static_assert(same_layout<LabelRecord, fbs::Label>());
static_assert(same_layout<DictOrderRecord, fbs::DictOrder>());
static_assert(same_layout<AxesRecord, fbs::Axes>());
static_assert(same_layout<BlockRecord, fbs::Block>());

// Ours (a record or a number) -> what the generated code stores in a vector.
template <class T>
struct Stored {
  using type = T;
};
template <>
struct Stored<NodeRecord> {
  using type = fbs::Node;
};
template <>
struct Stored<TensorRecord> {
  using type = fbs::Tensor;
};
template <>
struct Stored<ChunkRecord> {
  using type = fbs::Chunk;
};
template <>
struct Stored<LabelRecord> {
  using type = fbs::Label;
};
template <>
struct Stored<DictOrderRecord> {
  using type = fbs::DictOrder;
};
template <>
struct Stored<AxesRecord> {
  using type = fbs::Axes;
};
template <>
struct Stored<BlockRecord> {
  using type = fbs::Block;
};
template <>
struct Stored<char> {
  using type = std::uint8_t;
};
template <>
struct Stored<std::byte> {
  using type = std::uint8_t;
};

constexpr std::uint64_t kMaxBytes = FLATBUFFERS_MAX_BUFFER_SIZE;

template <class Ours, class Vector>
VectorSize view(const Vector* vector, std::span<const Ours>& out) {
  out = {reinterpret_cast<const Ours*>(vector->Data()), vector->size()};
  return {vector->size(), sizeof(Ours), alignof(Ours)};
}

template <class Ours>
auto create(flatbuffers::FlatBufferBuilder& builder, std::span<const Ours> records) {
  using Type = typename Stored<Ours>::type;
  const auto* data = reinterpret_cast<const Type*>(records.data());
  if constexpr (std::is_class_v<Type>) {
    return builder.CreateVectorOfStructs(data, records.size());
  } else {
    return builder.CreateVector(data, records.size());
  }
}

}  // namespace

Result<Tables> decode_index(ByteSpan bytes, std::uint64_t file_offset) {
  // The verifier's constructor asserts on this, and an assert is no answer to a hostile file.
  if (bytes.size() >= kMaxBytes) {
    return fail(ErrorCode::kLimitExceeded, "the index is larger than a FlatBuffer can be",
                file_offset);
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  // The schema has one table; a deeper or wider buffer is not ours.
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/2, /*max_tables=*/1);
  if (!fbs::VerifyIndexBuffer(verifier)) {
    return fail(ErrorCode::kIndexInvalid,
                "the index is not a FlatBuffer of Espalier's schema; it was not written by a "
                "correct writer",
                file_offset);
  }
  const fbs::Index* index = fbs::GetIndex(data);
  Tables tables;
  const VectorSizes sizes = {
      view(index->nodes(), tables.nodes),
      view(index->tensors(), tables.tensors),
      view(index->chunks(), tables.chunks),
      view(index->shape_ends(), tables.shape_ends),
      view(index->dims(), tables.dims),
      view(index->words(), tables.words),
      view(index->text_ends(), tables.text_ends),
      view(index->text(), tables.text),
      view(index->bytes(), tables.bytes),
      view(index->labels(), tables.labels),
      view(index->dict_orders(), tables.dict_orders),
      view(index->order(), tables.order),
      view(index->axes(), tables.axes),
      view(index->axis_names(), tables.axis_names),
      view(index->blocks(), tables.blocks),
  };
  // FlatBuffers' verifier lets vectors overlap, leave gaps and stand at crooked addresses, where
  // reading records of 8-byte numbers in place would be undefined behaviour.
  if (const auto misplaced = find_misplaced(bytes, sizes)) {
    return fail(ErrorCode::kIndexInvalid,
                "the index is not laid out as it must be; it was not written by a correct writer",
                file_offset + *misplaced);
  }
  return tables;
}

Result<EncodedIndex> encode_index(const Tables& tables) {
  const std::uint64_t payload =
      tables.nodes.size_bytes() + tables.tensors.size_bytes() + tables.chunks.size_bytes() +
      tables.shape_ends.size_bytes() + tables.dims.size_bytes() + tables.words.size_bytes() +
      tables.text_ends.size_bytes() + tables.text.size_bytes() + tables.bytes.size_bytes() +
      tables.labels.size_bytes() + tables.dict_orders.size_bytes() + tables.order.size_bytes() +
      tables.axes.size_bytes() + tables.axis_names.size_bytes() + tables.blocks.size_bytes();
  // Fifteen vectors of at most 4 + 7 bytes of framing, and the root table.
  constexpr std::uint64_t kFraming = 512;
  // The builder's own check is an assert that release builds do not have.
  if (payload > kMaxBytes - kFraming) {
    return fail(ErrorCode::kLimitExceeded,
                "the index of this tree would have " + std::to_string(payload) +
                    " bytes and an index holds at most 2 GiB; store long strings and bytes as "
                    "u8 tensors, or split the tree");
  }
  // Reserved exactly, because growing would copy a large index several times over.
  flatbuffers::FlatBufferBuilder builder(static_cast<std::size_t>(payload + kFraming));
  const auto nodes = create(builder, tables.nodes);
  const auto tensors = create(builder, tables.tensors);
  const auto chunks = create(builder, tables.chunks);
  const auto shape_ends = create(builder, tables.shape_ends);
  const auto dims = create(builder, tables.dims);
  const auto words = create(builder, tables.words);
  const auto text_ends = create(builder, tables.text_ends);
  const auto text = create(builder, tables.text);
  const auto bytes = create(builder, tables.bytes);
  const auto labels = create(builder, tables.labels);
  const auto dict_orders = create(builder, tables.dict_orders);
  const auto order = create(builder, tables.order);
  const auto axes = create(builder, tables.axes);
  const auto axis_names = create(builder, tables.axis_names);
  const auto blocks = create(builder, tables.blocks);
  fbs::IndexBuilder root(builder);
  root.add_nodes(nodes);
  root.add_tensors(tensors);
  root.add_chunks(chunks);
  root.add_shape_ends(shape_ends);
  root.add_dims(dims);
  root.add_words(words);
  root.add_text_ends(text_ends);
  root.add_text(text);
  root.add_bytes(bytes);
  root.add_labels(labels);
  root.add_dict_orders(dict_orders);
  root.add_order(order);
  root.add_axes(axes);
  root.add_axis_names(axis_names);
  root.add_blocks(blocks);
  fbs::FinishIndexBuffer(builder, root.Finish());
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return EncodedIndex{{begin, begin + builder.GetSize()}};
}

Tables EncodedIndex::tables() const {
  // Our own bytes: decoding cannot fail, and an empty view is what a bug would show.
  return decode_index(bytes, 0).value_or(Tables{});
}

std::span<ChunkRecord> EncodedIndex::chunks() {
  const auto records = tables().chunks;
  return {const_cast<ChunkRecord*>(records.data()), records.size()};
}

}  // namespace espalier
