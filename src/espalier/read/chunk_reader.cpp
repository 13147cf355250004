#include "espalier/read/chunk_reader.h"

#include <utility>

#include "espalier/dtype.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/file_set.h"

namespace espalier {
namespace {

const ChunkRecord& record_of(const TensorRef& tensor, std::uint32_t i) {
  return tensor.catalog().tables().chunks[tensor.first_chunk() + i];
}

// Adds file and offset of the chunk, or of its base, to an error.
template <class T>
Result<T> located(Result<T> result, const TensorRef& tensor, std::uint32_t i) {
  if (result) return result;
  const bool is_base = result.error().code == ErrorCode::kBaseMismatch;
  const ChunkRecord& record = is_base
                                  ? tensor.bases(i)[static_cast<std::size_t>(result.error().offset)]
                                  : record_of(tensor, i);
  if (is_base) result.error().code = ErrorCode::kChunkCorrupt;
  result.error().offset = record.offset;
  result.error().file = tensor.catalog().files()[record.file].name;
  return result;
}

// How the tensor's numbers are stored.
NumberForm form_of(const TensorRef& tensor) {
  const StorageRecord* storage = tensor.storage();
  if (storage == nullptr) return {};
  return number_form(tensor.dtype(), storage->flags).value_or(NumberForm());
}

}  // namespace

StoredChunk stored_chunk(const TensorRef& tensor, std::uint32_t i) {
  const ChunkRecord& record = record_of(tensor, i);
  StoredChunk chunk{.codec = static_cast<Codec>(record.codec),
                    .layout = element_layout(tensor.dtype()),
                    .form = form_of(tensor),
                    .stored = record.stored,
                    .length = static_cast<std::uint32_t>(chunk_length(tensor.storage_bytes(), i))};
  if (tensor.catalog().has_hashes()) chunk.hash = record.hash;
  for (const ChunkRecord& base : tensor.bases(i)) {
    chunk.bases.push_back({static_cast<Codec>(base.codec), base.stored, base.hash});
  }
  return chunk;
}

Result<ByteSpan> ChunkReader::open(const TensorRef& tensor, std::uint32_t i, StoredLayers stored) {
  return located(gate_.open(stored_chunk(tensor, i), stored), tensor, i);
}

Result<void> ChunkReader::open_into(const TensorRef& tensor, std::uint32_t i, StoredLayers stored,
                                    MutableByteSpan out) {
  return located(gate_.open_into(stored_chunk(tensor, i), stored, out), tensor, i);
}

Result<void> ChunkReader::patch(const TensorRef& tensor, std::uint32_t i, std::size_t base,
                                StoredLayers stored, MutableByteSpan bytes) {
  return located(gate_.patch(stored_chunk(tensor, i), base, stored, bytes), tensor, i);
}

}  // namespace espalier
