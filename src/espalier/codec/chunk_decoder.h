// Gives back the bytes of a compressed chunk, whatever the stored bytes are.
#ifndef ESPALIER_CODEC_CHUNK_DECODER_H_
#define ESPALIER_CODEC_CHUNK_DECODER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/codec/codec.h"

/// zstd's decoder, by the name that <zstd.h> knows it by.
struct ZSTD_DCtx_s;

namespace espalier {

/// The message of kChunkCorrupt where bytes cannot be decoded.
inline constexpr std::string_view kUndecodable =
    "compressed tensor bytes cannot be decoded: the file was damaged; copy or download it again, "
    "or "
    "use the checkpoint before it";

/// Decodes chunks. Holds what zstd needs (some 100 KiB) from the first frame on, and one chunk's
/// bytes from the first planes on; nothing before. One per thread; movable.
class ChunkDecoder {
 public:
  /// Decodes `stored` into `logical`, which is as long as the chunk and a multiple of
  /// `layout.width`. Total: kChunkCorrupt if the bytes are not what an encoder makes of exactly so
  /// many bytes, and then `logical` holds anything. kOutOfMemory. The errors have no offset.
  Result<void> decode(Codec codec, ElementLayout layout, ByteSpan stored, MutableByteSpan logical);

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  Result<void> decode_frame(ByteSpan sealed, MutableByteSpan out);
  Result<void> decode_planes(ElementLayout layout, ByteSpan stored, MutableByteSpan logical);

  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::vector<std::byte> planes_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_DECODER_H_
