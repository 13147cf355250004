#include "espalier/codec/frame.h"

#include <cstdint>

#include <zstd.h>

namespace espalier {

bool is_canonical_frame(ByteSpan frame, std::size_t size) {
  constexpr std::uint32_t kMagic = 0xFD2FB528;
  constexpr std::size_t kDescriptor = sizeof kMagic;
  // One segment; no unused or reserved bit, no checksum (the chunk has one), no dictionary.
  constexpr unsigned kFixedBits = 0x3F;
  constexpr unsigned kSingleSegment = 0x20;
  return frame.size() > kDescriptor && load_le<std::uint32_t>(frame.data()) == kMagic &&
         (std::to_integer<unsigned>(frame[kDescriptor]) & kFixedBits) == kSingleSegment &&
         ZSTD_getFrameContentSize(frame.data(), frame.size()) == size &&
         ZSTD_findFrameCompressedSize(frame.data(), frame.size()) == frame.size();
}

}  // namespace espalier
