// Decodes compressed chunks; safe for any stored bytes.
#ifndef ESPALIER_CODEC_CHUNK_DECODER_H_
#define ESPALIER_CODEC_CHUNK_DECODER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"
#include "espalier/error.h"

/// zstd's decoder, declared as in <zstd.h>.
struct ZSTD_DCtx_s;

namespace espalier {

/// The message of kChunkCorrupt if bytes cannot be decoded.
inline constexpr std::string_view kUndecodable =
    "compressed tensor bytes cannot be decoded: the file was damaged; copy or download it again, "
    "or use the previous checkpoint";

/// Decodes chunks. Allocates zstd's context (some 100 KiB) at the first frame, and memory for the
/// streams of planes and patches: at most two chunks' bytes. One per thread; movable.
class ChunkDecoder {
 public:
  /// Decodes `stored` into `logical`, whose length is that of the chunk and a multiple of
  /// `layout.width`. Safe for any bytes. kChunkCorrupt if no encoder makes these bytes for this
  /// length; the contents of `logical` are then unspecified. kOutOfMemory. The errors have no
  /// offset. kPatch is always kChunkCorrupt here: it needs a base.
  [[nodiscard]] Result<void> decode(Codec codec, ElementLayout layout, ByteSpan stored,
                                    MutableByteSpan logical);

  /// Applies the patch `stored` in place: `logical` holds the bytes of the base before, and those
  /// of the chunk after. Otherwise like decode().
  [[nodiscard]] Result<void> apply_patch(ElementLayout layout, ByteSpan stored,
                                         MutableByteSpan logical);

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  [[nodiscard]] Result<void> decode_frame(ByteSpan sealed, MutableByteSpan out);
  [[nodiscard]] Result<void> decode_planes(ElementLayout layout, ByteSpan stored,
                                           MutableByteSpan logical);
  [[nodiscard]] Result<const std::byte*> take_stream(std::size_t length, ByteSpan& rest,
                                                     MutableByteSpan decoded);
  MutableByteSpan scratch(std::size_t size);

  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::vector<std::byte> scratch_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_DECODER_H_
