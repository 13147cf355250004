// Takes the place of chunk_decoder.cpp in builds without zstd.
#include "espalier/codec/chunk_decoder.h"

namespace espalier {

void ChunkDecoder::FreeContext::operator()(ZSTD_DCtx_s*) const {}

Result<void> ChunkDecoder::decode(Codec codec, ElementLayout, ByteSpan, MutableByteSpan) {
  return fail(ErrorCode::kUnsupportedCodec,
              "this build has no decoder for codec " + std::to_string(static_cast<int>(codec)));
}

}  // namespace espalier
