// Replaces chunk_encoder.cpp in builds that only decode.
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"

namespace espalier {

class ChunkEncoder::Coder {};

Result<void> check_compression_level(int level) {
  if (level == kNoCompression) return {};
  return fail(ErrorCode::kInvalidArgument, "this build cannot compress; save with level 0");
}

ChunkEncoder::ChunkEncoder(int) {}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;
ChunkEncoder& ChunkEncoder::operator=(ChunkEncoder&&) noexcept = default;

Result<ChunkEncoder::Encoded> ChunkEncoder::encode(ByteSpan logical, ElementLayout) {
  return Encoded{Codec::kRaw, logical};
}

}  // namespace espalier
