// Decodes and checks stored bytes: the only way that they become a tensor's bytes.
#ifndef ESPALIER_CODEC_CHUNK_GATE_H_
#define ESPALIER_CODEC_CHUNK_GATE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/number_form.h"
#include "espalier/error.h"

namespace espalier {

/// The message of kChunkCorrupt if bytes do not match their recorded hash.
inline constexpr std::string_view kHashMismatch =
    "tensor bytes do not match their hash: the file was damaged, or the tensor changed while it "
    "was saved; copy or download the file again, or use the previous checkpoint";

/// The message if the bytes of a base are wrong.
inline constexpr std::string_view kBaseChanged =
    "the bytes that a patch is applied to are not those that it was made for: their file was "
    "changed or damaged; find the right one, or use a checkpoint that does not need it";

/// How the base of a patch is stored, and its expected result.
struct StoredBase {
  Codec codec = Codec::kRaw;
  std::uint32_t stored = 0;
  Hash128 hash = {};
};

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
  /// Of a patch: what it is applied to, what that is applied to if it is a patch, and so on.
  std::vector<StoredBase> bases = {};
};

/// The stored bytes of a chunk, and then those of each of its bases. A view.
class StoredLayers {
 public:
  /// Of a chunk without bases.
  StoredLayers(const ByteSpan& chunk) : layers_(&chunk, 1) {}
  StoredLayers(std::span<const ByteSpan> layers) : layers_(layers) {}

  const ByteSpan& chunk() const { return layers_.front(); }
  const ByteSpan& base(std::size_t i) const { return layers_[1 + i]; }
  std::size_t size() const { return layers_.size(); }

 private:
  std::span<const ByteSpan> layers_;
};

/// Decodes and checks chunks. Allocates nothing before the first compressed chunk, then at most two
/// chunks' bytes and a zstd context. One per thread; movable.
class ChunkGate {
 public:
  /// Returns the bytes of a chunk: a view of `stored` if it is raw and plain, otherwise of the
  /// gate's memory, valid until the next call. kTruncated if `stored` has the wrong lengths;
  /// kChunkCorrupt if it cannot be decoded or does not match its hash; kBaseMismatch if that is so
  /// because a base does not; kOutOfMemory. Errors have no file, offset or path, except that the
  /// offset of kBaseMismatch is the base's number in `chunk.bases`: the caller reports
  /// kChunkCorrupt there.
  [[nodiscard]] Result<ByteSpan> open(const StoredChunk& chunk, StoredLayers stored);

  /// The same into `out`, which has `chunk.length` bytes. `out` may be the stored bytes of a raw
  /// chunk; its contents are unspecified after an error.
  [[nodiscard]] Result<void> open_into(const StoredChunk& chunk, StoredLayers stored,
                                       MutableByteSpan out);

  /// Turns base number `base` of a patch into the chunk, in place: `bytes`, as many as the chunk
  /// has, holds what chunk.bases[base] says. `stored` needs only the chunk's bytes and those of the
  /// bases before that number. kTruncated and kChunkCorrupt as of open(), also for a `bytes` that
  /// held anything else; it is unspecified after an error.
  [[nodiscard]] Result<void> patch(const StoredChunk& chunk, std::size_t base, StoredLayers stored,
                                   MutableByteSpan bytes);

 private:
  [[nodiscard]] Result<void> decode(const StoredChunk& chunk, StoredLayers stored,
                                    MutableByteSpan out, bool checks_bases);

  ChunkDecoder decoder_;
  std::vector<std::byte> logical_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_CHUNK_GATE_H_
