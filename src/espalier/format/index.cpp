#include "espalier/format/index.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "espalier_generated.h"
#include <flatbuffers/flatbuffers.h>

#include "espalier/base/counted.h"
#include "espalier/codec/hash.h"
#include "espalier/format/file_set.h"
#include "espalier/format/index_layout.h"
#include "espalier/format/owned_tables.h"

namespace espalier {
namespace {

// Our records and the generated structs have the same bytes; this checks it.
template <class Ours, class Generated>
constexpr bool same_layout() {
  return sizeof(Ours) == sizeof(Generated) && alignof(Ours) == alignof(Generated) &&
         std::is_trivially_copyable_v<Ours> && std::is_standard_layout_v<Ours>;
}
static_assert(same_layout<NodeRecord, fbs::Node>());
static_assert(same_layout<TensorRecord, fbs::Tensor>());
static_assert(same_layout<ChunkRecord, fbs::Chunk>());
static_assert(same_layout<LabelRecord, fbs::Label>());
static_assert(same_layout<DictOrderRecord, fbs::DictOrder>());
static_assert(same_layout<AxesRecord, fbs::Axes>());
static_assert(same_layout<BlockRecord, fbs::Block>());
static_assert(same_layout<FileRecord, fbs::File>());

constexpr std::uint64_t kMaxBytes = FLATBUFFERS_MAX_BUFFER_SIZE;

template <class Ours, class Vector>
VectorSize view(const Vector* vector, std::span<const Ours>& out) {
  if (vector == nullptr) return {0, sizeof(Ours), alignof(Ours)};
  out = {reinterpret_cast<const Ours*>(vector->Data()), vector->size()};
  return {vector->size(), sizeof(Ours), alignof(Ours)};
}

template <class Ours>
VectorSize size_of(const std::vector<Ours>& records) {
  return {records.size(), sizeof(Ours), alignof(Ours)};
}

// Fills a vector of a new index and frees the source.
template <class Ours>
void move_into(std::span<const Ours> place, std::vector<Ours>& records) {
  if (!records.empty()) {
    std::memcpy(const_cast<Ours*>(place.data()), records.data(), place.size_bytes());
  }
  std::vector<Ours>().swap(records);
}

VectorSizes of_version(std::span<const VectorSize, kMaxIndexVectors> sizes, std::uint16_t minor) {
  return minor == 0 ? sizes.first(kIndexVectors) : sizes;
}

}  // namespace

Result<Tables> decode_index(ByteSpan bytes, std::uint64_t file_offset, std::uint16_t minor) {
  // The verifier's constructor asserts this, so check it first: a hostile file must not abort.
  if (bytes.size() >= kMaxBytes) {
    return fail(ErrorCode::kLimitExceeded, "the index is larger than a FlatBuffer can be",
                file_offset);
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  // The schema has one table, so a deeper or wider buffer is invalid.
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/2, /*max_tables=*/1);
  if (!fbs::VerifyIndexBuffer(verifier)) {
    return fail(ErrorCode::kIndexInvalid,
                "the index is not a FlatBuffer of Espalier's schema; it was not written by a "
                "correct writer",
                file_offset);
  }
  const fbs::Index* index = fbs::GetIndex(data);
  Tables tables;
  const VectorSize sizes[kMaxIndexVectors] = {
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
      view(index->files(), tables.files),
      view(index->bases(), tables.bases),
  };
  // FlatBuffers' verifier allows vectors that overlap, leave gaps or are misaligned. Reading
  // records of 8-byte numbers there in place would be undefined behaviour.
  // Nor does it mind fields of another version, or missing ones.
  if (const auto misplaced = find_misplaced(bytes, of_version(sizes, minor))) {
    return fail(
        ErrorCode::kIndexInvalid,
        "the index is not laid out as the format requires; it was not written by a correct writer",
        file_offset + *misplaced);
  }
  return tables;
}

Result<Tables> open_index(const Header& header, ByteSpan bytes) {
  if (hash128(bytes) != header.index_hash) {
    return fail(ErrorCode::kIndexCorrupt,
                "the index does not match its hash; copy or download the file again", kHeaderBytes);
  }
  return decode_index(bytes, kHeaderBytes, header.minor);
}

Result<EncodedIndex> EncodedIndex::encode(OwnedTables tables, std::size_t chunks) {
  const std::uint16_t minor = tables.files.empty() && tables.bases.empty() ? 0 : 1;
  const VectorSize all_sizes[kMaxIndexVectors] = {
      size_of(tables.nodes),
      size_of(tables.tensors),
      {chunks, sizeof(ChunkRecord), alignof(ChunkRecord)},
      size_of(tables.shape_ends),
      size_of(tables.dims),
      size_of(tables.words),
      size_of(tables.text_ends),
      size_of(tables.text),
      size_of(tables.bytes),
      size_of(tables.labels),
      size_of(tables.dict_orders),
      size_of(tables.order),
      size_of(tables.axes),
      size_of(tables.axis_names),
      size_of(tables.blocks),
      size_of(tables.files),
      size_of(tables.bases),
  };
  const VectorSizes sizes = of_version(all_sizes, minor);
  // Seventeen vectors of at most 4 + 7 bytes of framing, and the root table.
  constexpr std::uint64_t kFraming = 512;
  std::uint64_t payload = 0;
  for (const VectorSize& size : sizes) payload += size.bytes();
  if (payload > kMaxBytes - kFraming) {
    return fail(ErrorCode::kLimitExceeded,
                "the index of this tree would have " + counted(payload, "byte") +
                    " and an index holds at most 2 GiB; store long strings and bytes as "
                    "u8 tensors, or split the tree");
  }
  // Written straight into the result: FlatBuffers' builder would hold a large index twice.
  auto memory = Arena::allocate(index_bytes(sizes));
  if (!memory) return propagate(memory);
  write_index_frame(sizes, memory->bytes());
  const auto views = decode_index(memory->bytes(), 0, minor);
  if (!views) return propagate(views);
  EncodedIndex encoded(std::move(*memory), *views);
  const Tables& places = encoded.tables();
  // Filling the index takes memory. Large tables come first, so that they are freed before the rest
  // is copied. Chunks come last, because they have no source to free.
  move_into(places.text, tables.text);
  move_into(places.nodes, tables.nodes);
  move_into(places.tensors, tables.tensors);
  move_into(places.shape_ends, tables.shape_ends);
  move_into(places.dims, tables.dims);
  move_into(places.words, tables.words);
  move_into(places.text_ends, tables.text_ends);
  move_into(places.bytes, tables.bytes);
  move_into(places.labels, tables.labels);
  move_into(places.dict_orders, tables.dict_orders);
  move_into(places.order, tables.order);
  move_into(places.axes, tables.axes);
  move_into(places.axis_names, tables.axis_names);
  move_into(places.blocks, tables.blocks);
  move_into(places.files, tables.files);
  move_into(places.bases, tables.bases);
  const auto chunk_records = encoded.chunks();
  std::fill(chunk_records.begin(), chunk_records.end(), ChunkRecord{});
  return encoded;
}

std::span<ChunkRecord> EncodedIndex::chunks() {
  const auto records = tables_.chunks;
  return {const_cast<ChunkRecord*>(records.data()), records.size()};
}

}  // namespace espalier
