#include "espalier/foreign/common/zstd_frame.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace espalier {
namespace {

// A frame of `blocks` blocks of 128 KiB of one byte, which does not say how much it holds. Its
// window is 2^window_log bytes.
std::vector<std::byte> repeating_frame(unsigned window_log, unsigned blocks) {
  std::vector<std::byte> frame;
  const auto add = [&](std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) frame.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  add(0xFD2FB528, 4);
  add(0, 1);                       // neither a content size nor a checksum
  add((window_log - 10) << 3, 1);  // RFC 8878, section 3.1.1.1.2
  for (unsigned i = 0; i < blocks; ++i) {
    const std::uint64_t is_last = i + 1 == blocks ? 1 : 0;
    add(std::uint64_t{128 * 1024} << 3 | 1 << 1 | is_last, 3);
    add(7, 1);
  }
  return frame;
}

}  // namespace

TEST_CASE("a zstd frame of another format takes no memory for its window") {
  // A stream refuses more than 2^27 bytes, and takes all of them for less.
  const auto out = decompress_frame(repeating_frame(31, 1), 1 << 20);
  REQUIRE(out);
  CHECK(*out == std::vector<std::byte>(128 * 1024, std::byte{7}));
}

TEST_CASE("a zstd frame that does not say its size is decompressed to the limit and no further") {
  const auto frame = repeating_frame(20, 5);
  const auto out = decompress_frame(frame, 5 * 128 * 1024);
  REQUIRE(out);
  CHECK(*out == std::vector<std::byte>(5 * 128 * 1024, std::byte{7}));
  const auto more = decompress_frame(frame, 5 * 128 * 1024 - 1);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == ErrorCode::kLimitExceeded);
}

}  // namespace espalier
