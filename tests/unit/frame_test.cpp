// Which zstd frames are canonical: by frames that are written here, byte for byte.
#include "espalier/codec/frame.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

namespace espalier {
namespace {

constexpr unsigned kRaw = 0;
constexpr unsigned kRepeated = 1;

// A frame for `size` bytes with a single segment. Blocks are added as they are.
class Frame {
 public:
  explicit Frame(std::uint32_t size, unsigned descriptor = 0xA0) : size_(size) {
    add({0x28, 0xB5, 0x2F, 0xFD, descriptor});
    if (descriptor == 0xA0) add({size & 255, size >> 8 & 255, size >> 16 & 255, size >> 24});
    if (descriptor == 0x20) add({size & 255});
  }

  Frame& block(std::uint32_t size, unsigned type, std::size_t stored, bool is_last) {
    const std::uint32_t header = size << 3 | type << 1 | (is_last ? 1 : 0);
    add({header & 255, header >> 8 & 255, header >> 16});
    bytes_.resize(bytes_.size() + stored, std::byte{7});
    return *this;
  }

  bool is_canonical() const { return is_canonical_frame(bytes_, size_); }
  bool is_canonical_without(std::size_t last) const {
    const std::vector<std::byte> cut(bytes_.begin(),
                                     bytes_.end() - static_cast<std::ptrdiff_t>(last));
    return is_canonical_frame(cut, size_);
  }

 private:
  void add(std::initializer_list<std::uint32_t> values) {
    for (const std::uint32_t value : values) bytes_.push_back(static_cast<std::byte>(value));
  }

  std::vector<std::byte> bytes_;
  std::uint32_t size_;
};

TEST_CASE("Blocks of a canonical frame end where the frame ends") {
  CHECK(Frame(5, 0x20).block(5, kRaw, 5, true).is_canonical());
  // An empty block needs no more than its header.
  CHECK(Frame(5, 0x20).block(5, kRaw, 5, false).block(0, kRaw, 0, true).is_canonical());
  CHECK(Frame(5, 0x20).block(5, kRepeated, 1, true).is_canonical());
  const Frame frame = Frame(5, 0x20).block(5, kRaw, 5, true);
  for (std::size_t cut = 1; cut <= 9; ++cut) CHECK_FALSE(frame.is_canonical_without(cut));
  CHECK_FALSE(Frame(5, 0x20).block(5, kRaw, 6, true).is_canonical());
  CHECK_FALSE(Frame(5, 0x20).block(5, kRaw, 5, false).is_canonical());
  // The next header would stand beyond the frame.
  CHECK_FALSE(Frame(5, 0x20).block(5, kRaw, 3, false).is_canonical());
}

TEST_CASE("A skippable frame is not canonical") {
  // zstd says of it that it holds 0 bytes. What follows would be one empty block.
  std::vector<std::byte> frame;
  for (const unsigned value : {0x50u, 0x2Au, 0x4Du, 0x18u, 0x20u, 0u, 1u, 0u, 0u}) {
    frame.push_back(static_cast<std::byte>(value));
  }
  CHECK_FALSE(is_canonical_frame(frame, 0));
  frame[0] = std::byte{0x28};
  frame[1] = std::byte{0xB5};
  frame[2] = std::byte{0x2F};
  frame[3] = std::byte{0xFD};
  CHECK(is_canonical_frame(frame, 0));
}

TEST_CASE("A block of a canonical frame holds no more than RFC 8878 allows") {
  constexpr std::uint32_t kMost = 128 * 1024;
  CHECK(Frame(kMost).block(kMost, kRepeated, 1, true).is_canonical());
  CHECK_FALSE(Frame(kMost + 1).block(kMost + 1, kRepeated, 1, true).is_canonical());
}

TEST_CASE("A canonical frame has one segment and no checksum") {
  for (const unsigned descriptor : {0xA4u, 0xA8u, 0xB0u, 0xA1u, 0x80u}) {
    CAPTURE(descriptor);
    CHECK_FALSE(Frame(5, descriptor).block(5, kRaw, 5, true).is_canonical());
  }
}

}  // namespace
}  // namespace espalier
