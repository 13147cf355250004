#include "espalier/codec/frame_encoder.h"

#include <algorithm>
#include <array>

#include "espalier/base/little_endian.h"
#include "espalier/codec/compression_level.h"

// For the names of experimental parameters; every function used is also in the shared library.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/frame.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/sample.h"

namespace espalier {
namespace {

tl::unexpected<Error> no_memory() {
  return fail(ErrorCode::kOutOfMemory, "out of memory while compressing; use fewer threads");
}

}  // namespace

int zstd_level(int level) {
  constexpr std::array<int, kMaxCompression> kLevels = {1, 3, 5, 7, 9, 12, 15, 17, 19};
  return kLevels[static_cast<std::size_t>(std::clamp(level, kFastCompression, kMaxCompression) -
                                          1)];
}

FrameEncoder FrameEncoder::local_entropy_only() { return FrameEncoder(1, true, kLocalBytes); }

Result<std::optional<std::size_t>> FrameEncoder::encode(ByteSpan bytes, MutableByteSpan out) {
  if (!context_) {
    context_.reset(ZSTD_createCCtx());
    if (!context_ || !set_up()) return no_memory();
  }
  if (out.size() <= kSealBytes) return std::optional<std::size_t>();
  const std::size_t size = ZSTD_compress2(context_.get(), out.data(), out.size() - kSealBytes,
                                          bytes.data(), bytes.size());
  if (ZSTD_isError(size) == 0) {
    // Never write a frame that the decoder would refuse, even if zstd chooses another form.
    if (!is_canonical_frame(out.first(size), bytes.size())) return std::optional<std::size_t>();
    store_le(out.data() + size, hash64(out.first(size)));
    return std::optional(size + kSealBytes);
  }
  if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) return no_memory();
  return std::optional<std::size_t>();
}

void FrameEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

bool FrameEncoder::set_up() {
  bool done = true;
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    done = done && ZSTD_isError(ZSTD_CCtx_setParameter(context_.get(), parameter, value)) == 0;
  };
  set(ZSTD_c_compressionLevel, level_);
  // The window is as long as a chunk: this format allows only single-segment frames.
  set(ZSTD_c_windowLog, 20);
  if (entropy_only_) {
    set(ZSTD_c_strategy, ZSTD_fast);
    set(ZSTD_c_minMatch, 7);
    set(ZSTD_c_targetLength, 1 << 17);
    set(ZSTD_c_hashLog, 6);
    set(ZSTD_c_chainLog, 6);
    set(ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
  }
#ifdef ZSTD_c_maxBlockSize  // from 1.5.4 on
  if (block_bytes_ != 0) set(ZSTD_c_maxBlockSize, block_bytes_);
#endif
  return done;
}

}  // namespace espalier
