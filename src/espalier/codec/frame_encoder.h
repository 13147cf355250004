// Makes sealed zstd frames. Internal to the codecs.
#ifndef ESPALIER_CODEC_FRAME_ENCODER_H_
#define ESPALIER_CODEC_FRAME_ENCODER_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "espalier/bytes.h"
#include "espalier/error.h"

/// zstd's encoder, declared as in <zstd.h>.
struct ZSTD_CCtx_s;

namespace espalier {

/// zstd's level for a compression level, 1 to 9.
int zstd_level(int level);

/// A zstd encoder with fixed settings. Allocates zstd's context at the first frame. One per thread;
/// movable.
class FrameEncoder {
 public:
  /// zstd's own settings for its level `level`.
  static FrameEncoder with_matches(int level) { return FrameEncoder(level, false, 0); }

  /// An entropy code and nothing else: matches among exponents are short and take more room than
  /// they save. zstd has no such setting. A step that skips a whole block after the first failed
  /// search comes close, and the smallest table costs no time to clear. With these settings zstd
  /// would leave literals uncompressed, so literal compression is forced.
  static FrameEncoder entropy_only() { return FrameEncoder(1, true, 0); }

  /// The same with an entropy code for every kLocalBytes instead of every 128 KiB.
  static FrameEncoder local_entropy_only();

  /// Writes the frame of `bytes` and its seal into `out` and returns their length; nullopt if they
  /// do not fit. kOutOfMemory.
  [[nodiscard]] Result<std::optional<std::size_t>> encode(ByteSpan bytes, MutableByteSpan out);

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  FrameEncoder(int level, bool entropy_only, int block_bytes)
      : level_(level), entropy_only_(entropy_only), block_bytes_(block_bytes) {}

  bool set_up();

  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  int level_;
  bool entropy_only_;
  int block_bytes_;  // 0 for zstd's own choice
};

}  // namespace espalier

#endif  // ESPALIER_CODEC_FRAME_ENCODER_H_
