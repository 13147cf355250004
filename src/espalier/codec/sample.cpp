#include "espalier/codec/sample.h"

#include <algorithm>
#include <cstdint>

#include "espalier/codec/planes.h"

namespace espalier {
namespace {

constexpr std::size_t kRuns = 16;
constexpr std::size_t kRunElements = 128;
constexpr std::size_t kElements = kRuns * kRunElements;
constexpr std::size_t kWords = 1024;

// Whether the bytes' values are more uneven than chance makes them. Compares the number of equal
// pairs (the basis of Renyi's entropy of order 2, which is never above Shannon's) with what even
// values would have: a tenth more of them stands for at most 7.87 bits a byte.
bool is_uneven(ByteSpan bytes) {
  std::array<std::uint32_t, 256> counts = {};
  for (const std::byte byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
  std::uint64_t squares = 0;
  for (const std::uint64_t count : counts) squares += count * count;
  const std::uint64_t n = bytes.size();
  const std::uint64_t even = n + n * (n - 1) / 256;
  return squares * 10 > even * 11;
}

// Whether at least one word in sixteen was seen before.
bool has_repeats(ByteSpan bytes) {
  constexpr std::size_t kSlots = 4096;
  const std::size_t words = bytes.size() / sizeof(std::uint64_t);
  const std::size_t taken = std::min(words, kWords);
  std::array<std::uint64_t, kSlots> seen = {};
  std::size_t again = 0;
  for (std::size_t i = 0; i < taken; ++i) {
    const std::size_t word = i * words / taken;
    const auto value = load_le<std::uint64_t>(bytes.data() + word * sizeof(std::uint64_t));
    // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4).
    std::uint64_t& slot = seen[(value * 0x9E3779B97F4A7C15u) >> 52];
    again += slot == ~value ? 1 : 0;  // the complement, because zero is frequent and slots begin so
    slot = ~value;
  }
  return again * 16 > taken;
}

}  // namespace

ChunkSample take_sample(ByteSpan logical, ElementLayout layout) {
  const std::size_t width = layout.width;
  const std::size_t elements = logical.size() / width;
  std::array<std::byte, kElements * kMaxElementWidth> runs;
  std::size_t n = 0;
  const auto take = [&](std::size_t first, std::size_t count) {
    std::memcpy(runs.data() + n * width, logical.data() + first * width, count * width);
    n += count;
  };
  if (elements <= kElements) {
    take(0, elements);
  } else {
    for (std::size_t run = 0; run < kRuns; ++run) {
      take(run * (elements - kRunElements) / (kRuns - 1), kRunElements);
    }
  }

  std::array<std::byte, kElements * kMaxElementWidth> parted;
  PlanePointers<std::byte> planes = {};
  for (std::size_t k = 0; k < width; ++k) planes[k] = parted.data() + k * n;
  split_planes(layout, ByteSpan(runs).first(n * width), planes);
  ChunkSample sample;
  for (std::size_t k = 0; k < width; ++k) sample.uneven[k] = is_uneven({planes[k], n});
  sample.repeats = has_repeats(logical);
  return sample;
}

}  // namespace espalier
