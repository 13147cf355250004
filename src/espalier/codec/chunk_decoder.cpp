#include "espalier/codec/chunk_decoder.h"

#include <cstdint>

#include <zstd.h>

#include "espalier/codec/frame.h"
#include "espalier/codec/hash.h"
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

Result<void> ChunkDecoder::decode_planes(ElementLayout layout, ByteSpan stored,
                                         MutableByteSpan logical) {
  const std::size_t width = layout.width;
  const std::size_t n = logical.size() / width;
  const std::size_t lengths = sizeof(std::uint32_t) * width;
  if (!layout.has_planes() || n == 0 || n * width != logical.size() || stored.size() < lengths) {
    return corrupt();
  }
  // Never shrunk: chunk sizes vary.
  if (planes_.size() < logical.size()) planes_.resize(logical.size());
  PlanePointers<const std::byte> planes = {};
  ByteSpan rest = stored.subspan(lengths);
  for (std::size_t k = 0; k < width; ++k) {
    const auto length = load_le<std::uint32_t>(stored.data() + k * sizeof(std::uint32_t));
    if (length == 0 || length > n || length > rest.size()) return corrupt();
    const ByteSpan plane = rest.first(length);
    rest = rest.subspan(length);
    const auto decoded = MutableByteSpan(planes_).subspan(k * n, n);
    planes[k] = decoded.data();
    if (length == n) {
      planes[k] = plane.data();
    } else if (length == 1) {
      std::memset(decoded.data(), std::to_integer<int>(plane[0]), n);
    } else if (auto ok = decode_frame(plane, decoded); !ok) {
      return ok;
    }
  }
  if (!rest.empty()) return corrupt();
  merge_planes(layout, planes, logical);
  return {};
}

}  // namespace espalier
