#include "espalier/codec/frame.h"

#include <cstdint>

#include <zstd.h>

#include "espalier/base/little_endian.h"

namespace espalier {

namespace {

// Whether blocks follow from byte `at` on, none above the size that RFC 8878 allows, and the last
// one ends with the frame. zstd's one-shot decoder accepts larger blocks; other decoders do not.
bool has_only_blocks(ByteSpan frame, std::size_t at) {
  constexpr std::size_t kLargestBlock = 128 * 1024;
  constexpr std::size_t kBlockHeader = 3;
  constexpr unsigned kRepeatedByte = 1;
  for (bool is_last = false; !is_last;) {
    if (frame.size() - at < kBlockHeader) return false;
    const std::uint32_t header = std::to_integer<std::uint32_t>(frame[at]) |
                                 std::to_integer<std::uint32_t>(frame[at + 1]) << 8 |
                                 std::to_integer<std::uint32_t>(frame[at + 2]) << 16;
    at += kBlockHeader;
    is_last = (header & 1) != 0;
    const std::size_t size = header >> 3;
    const std::size_t stored = ((header >> 1) & 3) == kRepeatedByte ? 1 : size;
    if (size > kLargestBlock || stored > frame.size() - at) return false;
    at += stored;
  }
  return at == frame.size();
}

}  // namespace

bool is_canonical_frame(ByteSpan frame, std::size_t size) {
  constexpr std::uint32_t kMagic = 0xFD2FB528;
  constexpr std::size_t kDescriptor = sizeof kMagic;
  // One segment; no unused or reserved bit, no checksum (the chunk has one), no dictionary.
  constexpr unsigned kFixedBits = 0x3F;
  constexpr unsigned kSingleSegment = 0x20;
  if (frame.size() <= kDescriptor || load_le<std::uint32_t>(frame.data()) != kMagic) return false;
  const auto descriptor = std::to_integer<unsigned>(frame[kDescriptor]);
  if ((descriptor & kFixedBits) != kSingleSegment) return false;
  const std::size_t blocks = kDescriptor + 1 + (std::size_t{1} << (descriptor >> 6));
  return blocks <= frame.size() && ZSTD_getFrameContentSize(frame.data(), frame.size()) == size &&
         has_only_blocks(frame, blocks);
}

}  // namespace espalier
