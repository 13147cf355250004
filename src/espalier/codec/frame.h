// The form that a zstd frame has in this format.
#ifndef ESPALIER_CODEC_FRAME_H_
#define ESPALIER_CODEC_FRAME_H_

#include <cstddef>

#include "espalier/base/bytes.h"

namespace espalier {

/// Whether `frame` is one zstd frame of `size` bytes, of a single segment, and nothing else. It may
/// still be impossible to decode. zstd itself takes more: several frames, skippable ones, frames of
/// old versions, blocks of any size, and nothing at all; and it ignores the window that a frame
/// asks for, which others would have to allocate. Thread-safe.
bool is_canonical_frame(ByteSpan frame, std::size_t size);

}  // namespace espalier

#endif  // ESPALIER_CODEC_FRAME_H_
