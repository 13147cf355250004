// How thoroughly a save compresses.
#ifndef ESPALIER_CODEC_COMPRESSION_LEVEL_H_
#define ESPALIER_CODEC_COMPRESSION_LEVEL_H_

#include "espalier/error.h"

namespace espalier {

/// Compression levels: 0 stores everything raw, 1 is the fastest, 9 the most thorough.
/// docs/compression.md describes them and measures their gain.
inline constexpr int kNoCompression = 0;
inline constexpr int kFastCompression = 1;
inline constexpr int kMaxCompression = 9;

/// kInvalidArgument unless `level` is 0 to 9.
[[nodiscard]] Result<void> check_compression_level(int level);

}  // namespace espalier

#endif  // ESPALIER_CODEC_COMPRESSION_LEVEL_H_
