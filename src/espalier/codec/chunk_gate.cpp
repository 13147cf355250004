#include "espalier/codec/chunk_gate.h"

#include <cstring>
#include <string>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

Result<void> check_length(std::uint32_t wanted, ByteSpan stored) {
  if (stored.size() == wanted) return {};
  return fail(ErrorCode::kTruncated, "a chunk has " + counted(wanted, "stored byte") +
                                         " and only " + std::to_string(stored.size()) +
                                         " could be read");
}

Result<void> check_lengths(const StoredChunk& chunk, StoredLayers stored) {
  auto ok = check_length(chunk.stored, stored.chunk());
  if (chunk.codec != Codec::kPatch) return ok;
  if (stored.size() != 1 + chunk.bases.size() || chunk.bases.empty()) {
    return fail(ErrorCode::kTruncated, "the bytes of a base are missing");
  }
  for (std::size_t i = 0; ok && i < chunk.bases.size(); ++i) {
    ok = check_length(chunk.bases[i].stored, stored.base(i));
  }
  return ok;
}

Result<void> check_hash(const StoredChunk& chunk, ByteSpan logical) {
  if (!chunk.hash || hash128(logical) == *chunk.hash) return {};
  return fail(ErrorCode::kChunkCorrupt, std::string(kHashMismatch));
}

}  // namespace

Result<ByteSpan> ChunkGate::open(const StoredChunk& chunk, StoredLayers stored) {
  if (chunk.codec != Codec::kRaw || !chunk.form.is_plain()) {
    // Never shrunk: chunk sizes vary.
    if (logical_.size() < chunk.length) logical_.resize(chunk.length);
    const MutableByteSpan out = MutableByteSpan(logical_).first(chunk.length);
    if (auto ok = open_into(chunk, stored, out); !ok) return propagate(ok);
    return ByteSpan(out);
  }
  auto ok = check_lengths(chunk, stored);
  if (ok) ok = check_hash(chunk, stored.chunk());
  if (!ok) return propagate(ok);
  return stored.chunk();
}

// With `checks_bases`, says which base is wrong, if one is.
Result<void> ChunkGate::decode(const StoredChunk& chunk, StoredLayers stored, MutableByteSpan out,
                               bool checks_bases) {
  if (chunk.codec != Codec::kPatch) {
    return decoder_.decode(chunk.codec, chunk.layout, stored.chunk(), out);
  }
  Result<void> ok;
  for (std::size_t i = chunk.bases.size(); ok && i-- > 0;) {
    const StoredBase& base = chunk.bases[i];
    ok = base.codec == Codec::kPatch
             ? decoder_.apply_patch(chunk.layout, stored.base(i), out)
             : decoder_.decode(base.codec, chunk.layout, stored.base(i), out);
    const bool is_wrong = !ok ? ok.error().code == ErrorCode::kChunkCorrupt
                              : checks_bases && hash128(out) != base.hash;
    if (checks_bases && is_wrong)
      return fail(ErrorCode::kBaseMismatch, std::string(kBaseChanged), i);
  }
  return ok ? decoder_.apply_patch(chunk.layout, stored.chunk(), out) : ok;
}

Result<void> ChunkGate::open_into(const StoredChunk& chunk, StoredLayers stored,
                                  MutableByteSpan out) {
  auto ok = check_lengths(chunk, stored);
  const bool is_raw = chunk.codec == Codec::kRaw;
  if (ok && !is_raw) ok = decode(chunk, stored, out, false);
  if (ok) ok = check_hash(chunk, is_raw ? stored.chunk() : ByteSpan(out));
  if (!ok) {
    // Only the result counts, so bases are not hashed unless it is wrong.
    const bool may_be_base = !chunk.bases.empty() && ok.error().code == ErrorCode::kChunkCorrupt;
    if (!may_be_base) return ok;
    auto why = decode(chunk, stored, out, true);
    return why ? ok : why;
  }
  // A driver may have read the file into this very buffer.
  if (is_raw && stored.chunk().data() != out.data()) {
    std::memcpy(out.data(), stored.chunk().data(), stored.chunk().size());
  }
  if (!chunk.form.is_plain()) restore_numbers(chunk.form, out);
  return {};
}

Result<void> ChunkGate::patch(const StoredChunk& chunk, std::size_t base, StoredLayers stored,
                              MutableByteSpan bytes) {
  auto ok = check_length(chunk.stored, stored.chunk());
  for (std::size_t i = 0; ok && i < base; ++i) {
    ok = check_length(chunk.bases[i].stored, stored.base(i));
  }
  for (std::size_t i = base; ok && i-- > 0;) {
    ok = decoder_.apply_patch(chunk.layout, stored.base(i), bytes);
  }
  if (ok) ok = decoder_.apply_patch(chunk.layout, stored.chunk(), bytes);
  return ok ? check_hash(chunk, bytes) : ok;
}

}  // namespace espalier
