#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "support/zstd_bytes.h"
#include <doctest/doctest.h>

#include "espalier/foreign/zarr/unpacker.h"

namespace espalier {
namespace {

// What a chunk of `size` bytes makes of `stored`, of which `at_once` come at a time.
Result<std::vector<std::byte>> unpacked(ByteSpan stored, std::size_t size, std::size_t at_once) {
  ZarrUnpacker unpacker({.packing = ZarrPacking::kZstd}, stored.size(), size);
  std::vector<std::byte> out(size);
  std::size_t made = 0;
  while (!stored.empty()) {
    const ByteSpan part = stored.first(std::min(at_once, stored.size()));
    const auto progress = unpacker.run(part, std::span(out).subspan(made));
    if (!progress) return propagate(progress);
    made += progress->made;
    stored = stored.subspan(progress->taken);
  }
  if (auto ok = unpacker.finish(); !ok) return propagate(ok);
  return out;
}

}  // namespace

TEST_CASE("a chunk of zarr takes no more memory for a zstd window than it has bytes") {
  // A stream of zstd refuses more than 2^27 bytes, and takes all of them for less.
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{5}, std::size_t{100}}) {
    CAPTURE(at_once);
    const auto few = unpacked(testing::repeating_frame(31, 1, 8), 8, at_once);
    REQUIRE(few);
    CHECK(*few == std::vector<std::byte>(8, std::byte{7}));
    const auto many = unpacked(testing::repeating_frame(31, 5), 5 * 128 * 1024, at_once);
    REQUIRE(many);
    CHECK(*many == std::vector<std::byte>(5 * 128 * 1024, std::byte{7}));
  }
  // A frame whose content is its window, and 100 MB.
  auto content = testing::repeating_frame(10, 1, 8);
  content[4] = std::byte{0xA0};
  content[5] = std::byte{0};
  const std::byte size[] = {std::byte{0xE1}, std::byte{0xF5}, std::byte{5}};
  content.insert(content.begin() + 6, size, size + 3);
  const auto refused = unpacked(content, 8, 100);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("holds more than the 8 bytes") != std::string::npos);
}

}  // namespace espalier
