#include "espalier/codec/chunk_gate.h"

#include <cstring>
#include <string>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

Result<void> check_length(const StoredChunk& chunk, ByteSpan stored) {
  if (stored.size() == chunk.stored) return {};
  return fail(ErrorCode::kTruncated, "a chunk has " + counted(chunk.stored, "stored byte") +
                                         " and only " + std::to_string(stored.size()) +
                                         " could be read");
}

Result<void> check_hash(const StoredChunk& chunk, ByteSpan logical) {
  if (!chunk.hash || hash128(logical) == *chunk.hash) return {};
  return fail(ErrorCode::kChunkCorrupt, std::string(kHashMismatch));
}

}  // namespace

Result<ByteSpan> ChunkGate::open(const StoredChunk& chunk, ByteSpan stored) {
  if (chunk.codec != Codec::kRaw || !chunk.form.is_plain()) {
    // Never shrunk: chunk sizes vary.
    if (logical_.size() < chunk.length) logical_.resize(chunk.length);
    const MutableByteSpan out = MutableByteSpan(logical_).first(chunk.length);
    if (auto ok = open_into(chunk, stored, out); !ok) return propagate(ok);
    return ByteSpan(out);
  }
  auto ok = check_length(chunk, stored);
  if (ok) ok = check_hash(chunk, stored);
  if (!ok) return propagate(ok);
  return stored;
}

Result<void> ChunkGate::open_into(const StoredChunk& chunk, ByteSpan stored, MutableByteSpan out) {
  auto ok = check_length(chunk, stored);
  const bool is_raw = chunk.codec == Codec::kRaw;
  if (ok && !is_raw) ok = decoder_.decode(chunk.codec, chunk.layout, stored, out);
  if (ok) ok = check_hash(chunk, is_raw ? stored : ByteSpan(out));
  if (!ok) return ok;
  // A driver may have read the file into this very buffer.
  if (is_raw && stored.data() != out.data()) {
    std::memcpy(out.data(), stored.data(), stored.size());
  }
  if (!chunk.form.is_plain()) restore_numbers(chunk.form, out);
  return {};
}

}  // namespace espalier
