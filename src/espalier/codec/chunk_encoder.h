// Compresses chunks with the codec that suits their bytes.
#ifndef ESPALIER_CODEC_CHUNK_ENCODER_H_
#define ESPALIER_CODEC_CHUNK_ENCODER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"
#include "espalier/error.h"

namespace espalier {

/// Encodes chunks. The same bytes, layout and level give the same result, with the same version of
/// zstd. Takes memory_bytes(). One per thread; movable.
class ChunkEncoder {
 public:
  struct Encoded {
    Codec codec = Codec::kRaw;
    /// The chunk itself for kRaw, shorter than it otherwise. Valid until the next encode().
    ByteSpan bytes;
  };

  /// `level` is 1 to 9.
  explicit ChunkEncoder(int level);

  /// The most memory in bytes that an encoder of this level takes.
  static std::size_t memory_bytes(int level);
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;
  ChunkEncoder& operator=(ChunkEncoder&&) noexcept;

  /// Encodes `logical`: whole elements, at most 1 MiB. Level 1 decides from a sample. The others
  /// try every codec that might help, and check that the result decodes to the same bytes.
  /// kOutOfMemory.
  [[nodiscard]] Result<Encoded> encode(ByteSpan logical, ElementLayout layout);

 private:
  class Coder;
  std::unique_ptr<Coder> coder_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_ENCODER_H_
