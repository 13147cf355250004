#include "espalier/codec/chunk_decoder.h"

#include <algorithm>
#include <cstdint>

#include <zstd.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/frame.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch.h"
#include "espalier/codec/planes.h"

namespace espalier {
namespace {

tl::unexpected<Error> corrupt() {
  return fail(ErrorCode::kChunkCorrupt, std::string(kUndecodable));
}

}  // namespace

void ChunkDecoder::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

Result<void> ChunkDecoder::decode(Codec codec, ElementLayout layout, ByteSpan stored,
                                  MutableByteSpan logical) {
  switch (codec) {
    case Codec::kRaw:
      if (stored.size() != logical.size()) return corrupt();
      std::memcpy(logical.data(), stored.data(), stored.size());
      return {};
    case Codec::kZstd:
      return decode_frame(stored, logical);
    case Codec::kPlanes:
      return decode_planes(layout, stored, logical);
    case Codec::kPatch:
      break;
  }
  return corrupt();
}

Result<void> ChunkDecoder::decode_frame(ByteSpan sealed, MutableByteSpan out) {
  if (sealed.size() < kSealBytes) return corrupt();
  const ByteSpan frame = sealed.first(sealed.size() - kSealBytes);
  if (hash64(frame) != load_le<std::uint64_t>(frame.data() + frame.size()) ||
      !is_canonical_frame(frame, out.size())) {
    return corrupt();
  }
  if (!context_) context_.reset(ZSTD_createDCtx());
  if (!context_) return fail(ErrorCode::kOutOfMemory, "out of memory while decoding a chunk");
  const std::size_t size =
      ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0 || size != out.size()) return corrupt();
  return {};
}

MutableByteSpan ChunkDecoder::scratch(std::size_t size) {
  // Never shrunk: chunk sizes vary.
  if (scratch_.size() < size) scratch_.resize(size);
  return MutableByteSpan(scratch_).first(size);
}

// Takes a stream of `decoded.size()` bytes, stored in `length` bytes, off the front of `rest`.
// Returns its bytes, which are `decoded` unless they are stored as they are.
Result<const std::byte*> ChunkDecoder::take_stream(std::size_t length, ByteSpan& rest,
                                                   MutableByteSpan decoded) {
  if (length > decoded.size() || length > rest.size()) return corrupt();
  const ByteSpan stored = rest.first(length);
  rest = rest.subspan(length);
  if (length == decoded.size()) return stored.data();
  if (length == 1) {
    std::memset(decoded.data(), std::to_integer<int>(stored[0]), decoded.size());
  } else if (auto ok = decode_frame(stored, decoded); !ok) {
    return propagate(ok);
  }
  return decoded.data();
}

Result<void> ChunkDecoder::decode_planes(ElementLayout layout, ByteSpan stored,
                                         MutableByteSpan logical) {
  const std::size_t width = layout.width;
  const std::size_t n = logical.size() / width;
  const std::size_t lengths = sizeof(std::uint32_t) * width;
  if (!layout.has_planes() || n == 0 || n * width != logical.size() || stored.size() < lengths) {
    return corrupt();
  }
  const MutableByteSpan decoded = scratch(logical.size());
  PlanePointers<const std::byte> planes = {};
  ByteSpan rest = stored.subspan(lengths);
  for (std::size_t k = 0; k < width; ++k) {
    const auto length = load_le<std::uint32_t>(stored.data() + k * sizeof(std::uint32_t));
    const auto plane = take_stream(length, rest, decoded.subspan(k * n, n));
    if (!plane) return propagate(plane);
    planes[k] = *plane;
  }
  if (!rest.empty()) return corrupt();
  merge_planes(layout, planes, logical);
  return {};
}

Result<void> ChunkDecoder::apply_patch(ElementLayout layout, ByteSpan stored,
                                       MutableByteSpan logical) {
  const std::size_t width = layout.width;
  const std::size_t n = logical.size() / width;
  if (n * width != logical.size() || stored.size() < patch_head_bytes(width)) return corrupt();
  const std::size_t count = load_le<std::uint32_t>(stored.data());
  const std::size_t gap_bytes = load_le<std::uint32_t>(stored.data() + sizeof(std::uint32_t));
  const bool is_dense = count == n;
  if (count == 0 || count > n ||
      (is_dense ? gap_bytes != 0 : gap_bytes < count || gap_bytes > logical.size())) {
    return corrupt();
  }
  const std::byte* length = stored.data() + 2 * sizeof(std::uint32_t);
  ByteSpan rest = stored.subspan(patch_head_bytes(width));
  // A byte after the gaps, for apply_changes().
  const MutableByteSpan decoded = scratch(gap_bytes + 1 + count * width);
  const MutableByteSpan gaps = decoded.first(gap_bytes + 1);
  if (const auto stream = take_stream(load_le<std::uint32_t>(length), rest, gaps.first(gap_bytes));
      !stream) {
    return propagate(stream);
  } else if (*stream != gaps.data()) {
    std::copy_n(*stream, gap_bytes, gaps.data());
  }
  gaps.back() = std::byte{0};
  PlanePointers<const std::byte> planes = {};
  for (std::size_t k = 0; k < width; ++k) {
    length += sizeof(std::uint32_t);
    const auto plane = take_stream(load_le<std::uint32_t>(length), rest,
                                   decoded.subspan(gaps.size() + k * count, count));
    if (!plane) return propagate(plane);
    planes[k] = *plane;
  }
  if (!rest.empty()) return corrupt();
  if (is_dense) {
    add_differences(width, planes, logical);
    return {};
  }
  if (!apply_changes(width, gaps, planes, count, logical)) return corrupt();
  return {};
}

}  // namespace espalier
