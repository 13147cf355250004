// The loops of CodeCounts that look at every element.

#include <bit>

#include "espalier/base/little_endian.h"
#include "espalier/tree/code_counts.h"

namespace espalier {
namespace {

// Below this many codes, it pays to track their pages.
constexpr std::size_t kFew = 4096;

}  // namespace

void CodeCounts::count(ByteSpan packed) {
  switch (codes_) {
    case Codes::kSixBits:
      return count_sixes(packed);
    case Codes::kBytes:
      return count_stored<std::uint8_t, 0>(packed);
    case Codes::kWords:
      return count_stored<std::uint16_t, 0>(packed);
    case Codes::kUpperHalves:
      return count_stored<std::uint32_t, 16>(packed);
  }
}

template <class Stored, int kShift>
void CodeCounts::count_stored(ByteSpan packed) {
  constexpr std::size_t kLanes = sizeof(Stored) == 1 ? kNarrowLanes : kWideLanes;
  constexpr std::size_t kAtOnce = 16 / sizeof(Stored);
  const std::byte* from = packed.data();
  const std::size_t codes = packed.size() / sizeof(Stored);
  const auto code = [&](std::size_t i) {
    return static_cast<std::size_t>(load_le<Stored>(from + i * sizeof(Stored)) >> kShift);
  };
  std::uint32_t* const counters = counters_.data();
  std::size_t i = 0;
  for (; i + kAtOnce <= codes; i += kAtOnce) {
    const auto first = load_le<std::uint64_t>(from + i * sizeof(Stored));
    const auto second = load_le<std::uint64_t>(from + i * sizeof(Stored) + 8);
    if (first == second && first == std::rotl(first, 8 * sizeof(Stored) % 64)) {
      // Long runs of one number are common, and each increment would wait for the last store.
      counters[code(i) * kLanes] += kAtOnce;
      continue;
    }
    for (std::size_t k = 0; k < kAtOnce; ++k) ++counters[code(i + k) * kLanes + k % kLanes];
  }
  for (; i < codes; ++i) ++counters[code(i) * kLanes];
  if (codes >= kFew || sizeof(Stored) == 1) {
    touched_.fill(true);
  } else {
    for (i = 0; i < codes; ++i) touched_[code(i) / kPage] = true;
  }
}

void CodeCounts::count_sixes(ByteSpan packed) {
  const auto byte = [&](std::size_t i) {
    return i < packed.size() ? std::to_integer<std::uint32_t>(packed[i]) : 0;
  };
  for (std::size_t i = 0; i < packed.size(); i += 3) {
    const std::uint32_t group = byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16;
    // One whole code in one byte, two in two, four in three.
    const std::size_t left = packed.size() - i;
    const std::size_t whole = left >= 3 ? 4 : left;
    for (std::size_t k = 0; k < whole; ++k) ++counters_[(group >> (6 * k) & 63) * kNarrowLanes + k];
  }
  touched_.fill(true);
}

}  // namespace espalier
