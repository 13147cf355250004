// Encodes a chunk as a patch: its differences to another chunk, the base.
#ifndef ESPALIER_CODEC_PATCH_ENCODER_H_
#define ESPALIER_CODEC_PATCH_ENCODER_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/frame_encoder.h"
#include "espalier/error.h"

namespace espalier {

/// Encodes patches (Codec::kPatch), always at the same level. The same bytes and layout give the
/// same patch, with the same version of zstd. Takes memory_bytes(). One per thread; movable.
class PatchEncoder {
 public:
  /// The most memory in bytes that an encoder takes.
  static std::size_t memory_bytes();

  /// The patch that makes `logical` of `base`, which has as many bytes: whole elements, at most
  /// 1 MiB. nullopt if it takes more than `most` bytes, is not smaller than the chunk, or nothing
  /// has changed. Valid until the next encode(). kOutOfMemory.
  [[nodiscard]] Result<std::optional<ByteSpan>> encode(ByteSpan base, ByteSpan logical,
                                                       ElementLayout layout, std::size_t most);

 private:
  void split(std::size_t width, std::size_t count);
  bool dense_is_smaller(std::size_t width, std::size_t count, std::size_t n, ByteSpan gaps) const;
  Result<std::optional<std::size_t>> store(std::size_t width, std::size_t count, ByteSpan gaps,
                                           std::size_t most);
  Result<std::size_t> encode_stream(ByteSpan stream, std::byte* out);

  FrameEncoder entropy_ = FrameEncoder::entropy_only();
  FrameEncoder matches_ = FrameEncoder::with_matches(1);
  std::vector<std::byte> differences_;
  std::vector<std::byte> gaps_;
  std::vector<std::byte> planes_;
  std::vector<std::byte> frame_;
  std::vector<std::byte> patch_;
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_PATCH_ENCODER_H_
