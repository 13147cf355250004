#include "espalier/read/chunk_reader.h"

#include <utility>

#include "espalier/format/element_layout.h"
#include "espalier/format/shape.h"

namespace espalier {
namespace {

const ChunkRecord& record_of(const TensorRef& tensor, std::uint32_t i) {
  return tensor.catalog().tables().chunks[tensor.first_chunk() + i];
}

// Adds the chunk's file, offset and path to its error.
template <class T>
Result<T> located(Result<T> result, const TensorRef& tensor, std::uint32_t i) {
  if (result) return result;
  const ChunkRecord& record = record_of(tensor, i);
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
  return chunk;
}

Result<ByteSpan> ChunkReader::open(const TensorRef& tensor, std::uint32_t i, ByteSpan stored) {
  return located(gate_.open(stored_chunk(tensor, i), stored), tensor, i);
}

Result<void> ChunkReader::open_into(const TensorRef& tensor, std::uint32_t i, ByteSpan stored,
                                    MutableByteSpan out) {
  return located(gate_.open_into(stored_chunk(tensor, i), stored, out), tensor, i);
}

}  // namespace espalier
