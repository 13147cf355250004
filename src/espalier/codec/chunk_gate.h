// Decodes and checks stored bytes: the only way that they become a tensor's bytes.
#ifndef ESPALIER_CODEC_CHUNK_GATE_H_
#define ESPALIER_CODEC_CHUNK_GATE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/number_form.h"

namespace espalier {

/// The message of kChunkCorrupt if bytes do not match their recorded hash.
inline constexpr std::string_view kHashMismatch =
    "tensor bytes do not match their hash: the file was damaged, or the tensor changed while it "
    "was saved; copy or download the file again, or use the previous checkpoint";

/// How a chunk is stored, and its expected result. Plain data, independent of any checkpoint.
struct StoredChunk {
  Codec codec = Codec::kRaw;
  ElementLayout layout;
  NumberForm form = {};
  /// Bytes in the file.
  std::uint32_t stored = 0;
  /// Bytes after decoding; the same for kRaw.
  std::uint32_t length = 0;
  /// Hash of the decoded bytes before their numbers are restored, if the format has hashes.
  std::optional<Hash128> hash = std::nullopt;
};

/// Decodes and checks chunks. Allocates nothing before the first compressed chunk, then at most two
/// chunks' bytes and a zstd context. One per thread; movable.
class ChunkGate {
 public:
  /// Returns the bytes of a chunk: a view of `stored` if it is raw and plain, otherwise of the
  /// gate's memory, valid until the next call. kTruncated if `stored` has the wrong length;
  /// kChunkCorrupt if it cannot be decoded or does not match its hash; kOutOfMemory. Errors have no
  /// file, offset or path.
  [[nodiscard]] Result<ByteSpan> open(const StoredChunk& chunk, ByteSpan stored);

  /// The same into `out`, which has `chunk.length` bytes. `out` may be `stored` itself; its
  /// contents are unspecified after an error.
  [[nodiscard]] Result<void> open_into(const StoredChunk& chunk, ByteSpan stored,
                                       MutableByteSpan out);

 private:
  ChunkDecoder decoder_;
  std::vector<std::byte> logical_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_GATE_H_
