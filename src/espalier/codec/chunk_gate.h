// The one gate through which stored bytes become a tensor's bytes: decodes and checks them.
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

/// The message of kChunkCorrupt where bytes do not have the hash that was recorded for them.
inline constexpr std::string_view kHashMismatch =
    "tensor bytes do not match their hash: the file was damaged, or the tensor changed while it "
    "was saved; copy or download the file again, or use the checkpoint before it";

/// How a chunk is stored, and what it must give. Plain data that knows no checkpoint.
struct StoredChunk {
  Codec codec = Codec::kRaw;
  ElementLayout layout;
  NumberForm form = {};
  /// Bytes in the file.
  std::uint32_t stored = 0;
  /// Bytes that they give; the same for kRaw.
  std::uint32_t length = 0;
  /// Of those bytes, before their numbers are restored, in a format that has hashes.
  std::optional<Hash128> hash = std::nullopt;
};

/// Opens chunks. Holds nothing until it meets a compressed chunk, and then at most two chunks'
/// bytes and a context of zstd. One per thread; movable.
class ChunkGate {
 public:
  /// The bytes of a chunk: a view of `stored` if they are raw and plain, and of memory of the gate,
  /// valid until its next call, otherwise. kTruncated if `stored` has not as many bytes as it
  /// should; kChunkCorrupt if they cannot be decoded or do not match their hash; kOutOfMemory.
  /// Errors say neither file nor offset nor path.
  Result<ByteSpan> open(const StoredChunk& chunk, ByteSpan stored);

  /// The same into `out`, which has `chunk.length` bytes. `out` may be `stored` itself; it holds
  /// anything after an error.
  Result<void> open_into(const StoredChunk& chunk, ByteSpan stored, MutableByteSpan out);

 private:
  ChunkDecoder decoder_;
  std::vector<std::byte> logical_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_GATE_H_
