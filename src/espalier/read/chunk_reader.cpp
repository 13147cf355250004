#include "espalier/read/chunk_reader.h"

#include <cstring>
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/shape.h"

namespace espalier {
namespace {

const ChunkRecord& record_of(const TensorRef& tensor, std::uint32_t i) {
  return tensor.catalog().tables().chunks[tensor.first_chunk() + i];
}

// Adds the place of the chunk to its error.
Error located(Error error, const TensorRef& tensor, const ChunkRecord& record) {
  error.offset = record.offset;
  error.file = tensor.catalog().files()[record.file].name;
  return error;
}

Result<void> check_length(const ChunkRecord& record, ByteSpan stored) {
  if (stored.size() == record.stored) return {};
  return fail(ErrorCode::kTruncated, "a chunk has " + counted(record.stored, "stored byte") +
                                         " and only " + std::to_string(stored.size()) +
                                         " could be read");
}

// How the tensor's numbers are stored.
NumberForm form_of(const TensorRef& tensor) {
  const StorageRecord* storage = tensor.storage();
  if (storage == nullptr) return {};
  return number_form(tensor.dtype(), storage->flags).value_or(NumberForm());
}

Result<void> check_hash(const TensorRef& tensor, const ChunkRecord& record, ByteSpan logical) {
  if (!tensor.catalog().has_hashes() || hash128(logical) == record.hash) return {};
  return fail(ErrorCode::kChunkCorrupt, std::string(kHashMismatch));
}

}  // namespace

Result<ByteSpan> ChunkReader::open(const TensorRef& tensor, std::uint32_t i, ByteSpan stored) {
  const ChunkRecord& record = record_of(tensor, i);
  if (record.codec != static_cast<std::uint8_t>(Codec::kRaw) || !form_of(tensor).is_plain()) {
    const auto length = static_cast<std::size_t>(chunk_length(tensor.storage_bytes(), i));
    // Never made smaller: chunks of several sizes take turns.
    if (logical_.size() < length) logical_.resize(length);
    const MutableByteSpan out = MutableByteSpan(logical_).first(length);
    if (auto ok = open_into(tensor, i, stored, out); !ok) return propagate(ok);
    return ByteSpan(out);
  }
  auto ok = check_length(record, stored);
  if (ok) ok = check_hash(tensor, record, stored);
  if (!ok) return tl::unexpected<Error>(located(std::move(ok.error()), tensor, record));
  return stored;
}

Result<void> ChunkReader::open_into(const TensorRef& tensor, std::uint32_t i, ByteSpan stored,
                                    MutableByteSpan out) {
  const ChunkRecord& record = record_of(tensor, i);
  auto ok = check_length(record, stored);
  const bool is_raw = record.codec == static_cast<std::uint8_t>(Codec::kRaw);
  if (ok && !is_raw) {
    ok = decoder_.decode(static_cast<Codec>(record.codec), element_layout(tensor.dtype()), stored,
                         out);
  }
  if (ok) ok = check_hash(tensor, record, is_raw ? stored : ByteSpan(out));
  if (!ok) return tl::unexpected<Error>(located(std::move(ok.error()), tensor, record));
  // A driver may have read the file to this very place.
  if (is_raw && stored.data() != out.data()) {
    std::memcpy(out.data(), stored.data(), stored.size());
  }
  if (const NumberForm form = form_of(tensor); !form.is_plain()) restore_numbers(form, out);
  return {};
}

}  // namespace espalier
