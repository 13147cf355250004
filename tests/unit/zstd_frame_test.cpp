#include "espalier/foreign/common/zstd_frame.h"

#include <cstddef>
#include <vector>

#include "support/zstd_bytes.h"
#include <doctest/doctest.h>

namespace espalier {

TEST_CASE("a zstd frame of another format takes no memory for its window") {
  // A stream refuses more than 2^27 bytes, and takes all of them for less.
  const auto out = decompress_frame(testing::repeating_frame(31, 1), 1 << 20);
  REQUIRE(out);
  CHECK(*out == std::vector<std::byte>(128 * 1024, std::byte{7}));
}

TEST_CASE("a zstd frame that does not say its size is decompressed to the limit and no further") {
  const auto frame = testing::repeating_frame(20, 5);
  const auto out = decompress_frame(frame, 5 * 128 * 1024);
  REQUIRE(out);
  CHECK(*out == std::vector<std::byte>(5 * 128 * 1024, std::byte{7}));
  const auto more = decompress_frame(frame, 5 * 128 * 1024 - 1);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == ErrorCode::kLimitExceeded);
}

}  // namespace espalier
