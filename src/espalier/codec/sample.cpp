#include "espalier/codec/sample.h"

#include <algorithm>
#include <cstdint>

#include "espalier/codec/planes.h"
#include "espalier/codec/repeats.h"

namespace espalier {
namespace {

// Short runs, so that rows that differ from their neighbours do not look like parts that differ.
constexpr std::size_t kRuns = 128;
constexpr std::size_t kElements = kRuns * kRunElements;

// Counts pairs of bytes at different positions, and the pairs with equal values: the basis of
// Renyi's entropy of order 2, which is never above Shannon's. Every pair is counted twice.
struct Pairs {
  std::uint64_t equal = 0;
  std::uint64_t all = 0;

  void add(ByteSpan bytes) {
    std::array<std::uint32_t, 256> counts = {};
    for (const std::byte byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
    for (const std::uint64_t count : counts) equal += count * count - count;
    all += bytes.size() * (bytes.size() - 1);
  }
};

// Whether the bytes' values are more uneven than chance: a tenth more equal pairs than a uniform
// distribution means at most 7.87 bits a byte.
bool is_uneven(const Pairs& pairs, std::size_t n) {
  return (pairs.equal + n) * 10 > (pairs.all / 256 + n) * 11;
}

// Whether bytes equal the one before them more often than by chance: once more in eight times.
bool has_runs(ByteSpan sample, const Pairs& pairs) {
  if (sample.size() < 2) return false;
  std::uint64_t equal = 0;
  for (std::size_t i = 1; i < sample.size(); ++i) equal += sample[i] == sample[i - 1] ? 1 : 0;
  // At most 2,048 bytes, so no product overflows.
  return equal * pairs.all * 8 > (sample.size() - 1) * (pairs.equal * 8 + pairs.all);
}

// Whether bytes in the same part of a plane are equal more often than bytes of the whole plane: a
// twelfth more means that separate codes save a tenth of a bit per byte.
bool is_local(ByteSpan sample, std::size_t parts, const Pairs& together) {
  if (parts < 2) return false;
  Pairs apart;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = i * sample.size() / parts;
    apart.add(sample.subspan(begin, (i + 1) * sample.size() / parts - begin));
  }
  // At most 2,048 bytes, so no product overflows.
  return apart.equal * together.all * 12 > apart.all * together.equal * 13;
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
  for (std::size_t k = 0; k < width; ++k) {
    const ByteSpan plane(planes[k], n);
    Pairs pairs;
    pairs.add(plane);
    sample.uneven[k] = is_uneven(pairs, n);
    sample.varied[k] = pairs.equal * 16 < pairs.all;
    sample.constant[k] = pairs.equal == pairs.all;
    // Runs of exponents are an everyday matter. Runs of mantissas show a smooth sequence, such as a
    // counter, which repeats in other planes too.
    if (k + 2 == width && has_runs(plane, pairs)) sample.repeats = true;
    sample.local[k] = sample.uneven[k] && is_local(plane, elements / kLocalBytes, pairs);
  }
  // Half of the runs are enough here.
  const ByteSpan some = ByteSpan(runs).first(n * width / 2);
  // 8 bytes repeat by chance if half of them are zeros, as in f32 that holds bf16.
  sample.repeats =
      sample.repeats || has_repeated_elements(some, width) ||
      (sample.constant[0] ? has_repeated_long_words(logical) : has_repeated_words(logical));
  return sample;
}

}  // namespace espalier
