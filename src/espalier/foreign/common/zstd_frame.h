// Whole zstd frames in files of other formats.
#ifndef ESPALIER_FOREIGN_COMMON_ZSTD_FRAME_H_
#define ESPALIER_FOREIGN_COMMON_ZSTD_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// What `bytes` decompress to, which must be exactly one frame. kForeignInvalid for other bytes,
/// and kLimitExceeded for more than `most`, before memory for it is taken. The messages begin with
/// what the bytes do: "is damaged".
[[nodiscard]] Result<std::vector<std::byte>> decompress_frame(ByteSpan bytes, std::uint64_t most);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_ZSTD_FRAME_H_
