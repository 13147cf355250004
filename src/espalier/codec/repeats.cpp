#include "espalier/codec/repeats.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr std::size_t kLeastElements = 32;  // one in this many must repeat
constexpr std::size_t kBefore = 4;          // elements before an element

// The lines of a group whose words are looked at. Every distance modulo the group's length lies
// between two of them (a perfect difference set).
constexpr std::size_t kLine = 64;  // bytes
constexpr std::size_t kGroupLines = 21;
constexpr std::array<std::size_t, 5> kChosen = {0, 1, 4, 14, 16};

constexpr int kSlotBits = 12;
constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
constexpr std::size_t kKept = kSlots / 4;

using Word = std::uint64_t;
using LongWord = std::array<std::uint64_t, 2>;

// One word in this many must repeat.
struct Least {
  std::size_t in_runs;
  std::size_t apart;  // of repeats at one distance, a fifth is seen
};
constexpr Least kLeastWords = {128, 512};
constexpr Least kLeastLongWords = {32, 16};

// Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the upper bits are good.
std::uint64_t hash_of(Word word) { return word * 0x9E3779B97F4A7C15u; }
std::uint64_t hash_of(const LongWord& word) {
  return hash_of(word[0] ^ word[1] * 0xC2B2AE3D27D4EB4Fu);
}

// Counts the hashes that occurred before.
std::size_t count_repeats(std::span<const std::uint64_t> hashes) {
  std::array<std::uint16_t, kSlots> seen = {};
  std::size_t repeats = 0;
  for (const std::uint64_t hash : hashes) {
    // The uppermost bits are alike in all kept hashes.
    std::uint16_t& slot = seen[hash << 8 >> (64 - kSlotBits)];
    const auto tag = static_cast<std::uint16_t>(hash >> 24 | 1);  // free slots are 0
    repeats += slot == tag ? 1 : 0;
    slot = tag;
  }
  return repeats;
}

// If there are many words, it keeps those with a small hash. So a word is kept wherever it occurs,
// and a small table finds repeats at any distance.
template <class AnyWord>
bool has_repeats(ByteSpan bytes, Least least) {
  if (bytes.size() < sizeof(AnyWord)) return false;
  const std::size_t groups = (bytes.size() - sizeof(AnyWord)) / (kLine * kGroupLines) + 1;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const std::size_t words = groups * kChosen.size();
  const std::uint64_t last_kept = words <= kKept ? kAll : kAll / words * kKept;
  std::array<std::uint64_t, 2 * kKept> kept;
  std::size_t n = 0;
  std::size_t in_runs = 0;
  std::uint64_t before = ~hash_of(load_le<AnyWord>(bytes.data()));
  for (std::size_t group = 0; group < groups; ++group) {
    for (const std::size_t line : kChosen) {
      const std::size_t at = (group * kGroupLines + line) * kLine;
      if (at + sizeof(AnyWord) > bytes.size()) break;
      const std::uint64_t hash = hash_of(load_le<AnyWord>(bytes.data() + at));
      // Without a branch, because the processor could not predict it. Runs count apart: their word
      // would be most of the kept ones, or none.
      const bool in_run = hash == before;
      kept[std::min(n, kept.size() - 1)] = hash;
      n += !in_run && hash <= last_kept ? 1 : 0;
      in_runs += in_run ? 1 : 0;
      before = hash;
    }
  }
  n = std::min(n, kept.size());
  return in_runs * least.in_runs > words ||
         count_repeats(std::span(kept).first(n)) * least.apart > n;
}

template <class Element>
bool elements_repeat(ByteSpan runs) {
  std::array<Element, kRunElements> run;
  std::size_t repeats = 0;
  for (ByteSpan rest = runs; rest.size() >= sizeof run; rest = rest.subspan(sizeof run)) {
    std::memcpy(run.data(), rest.data(), sizeof run);
    for (std::size_t i = kBefore; i < kRunElements; ++i) {
      bool same = false;
      for (std::size_t k = 1; k <= kBefore; ++k) same |= run[i] == run[i - k];
      repeats += same ? 1 : 0;
    }
  }
  return repeats * kLeastElements > runs.size() / sizeof run * (kRunElements - kBefore);
}

}  // namespace

bool has_repeated_words(ByteSpan bytes) { return has_repeats<Word>(bytes, kLeastWords); }

bool has_repeated_long_words(ByteSpan bytes) {
  return has_repeats<LongWord>(bytes, kLeastLongWords);
}

bool has_repeated_elements(ByteSpan runs, std::size_t width) {
  switch (width) {
    case 2:
      return elements_repeat<std::uint16_t>(runs);
    case 4:
      return elements_repeat<std::uint32_t>(runs);
    case 8:
      return elements_repeat<std::uint64_t>(runs);
    default:
      return false;  // equal bytes are frequent in everything
  }
}

}  // namespace espalier
