// The form of a zstd frame in this format.
#ifndef ESPALIER_CODEC_FRAME_H_
#define ESPALIER_CODEC_FRAME_H_

#include <cstddef>

#include "espalier/bytes.h"

namespace espalier {

/// Whether `frame` is exactly one zstd frame of `size` bytes with a single segment. Decoding may
/// still fail. zstd itself accepts more: several frames, skippable frames, frames of old versions,
/// blocks of any size, and empty input. It also ignores the frame's window size, which other
/// decoders would have to allocate. Thread-safe.
bool is_canonical_frame(ByteSpan frame, std::size_t size);

}  // namespace espalier

#endif  // ESPALIER_CODEC_FRAME_H_
