#include "espalier/tree/code_counts.h"

#include <algorithm>
#include <bit>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// Codes until the counters are flushed. They could hold 2^32, but flushing is cheap, and this way a
// test reaches it.
constexpr std::uint64_t kFlushAfter = std::uint64_t{1} << 25;
// Bytes counted at once: whole codes of any sort, and far fewer than may be unflushed.
constexpr std::size_t kStep = std::size_t{3} << 20;
// Below this many codes, it pays to track their pages.
constexpr std::size_t kFew = 4096;
// Up to this many codes, it pays to sort them in place of counting.
constexpr std::size_t kVeryFew = 1024;

}  // namespace

// Makes the counters, and counts what was kept.
void CodeCounts::allocate() {
  if (!counters_.empty()) return;
  counters_.resize((is_wide() ? 256 : 1) * kPage * lanes());
  for (const std::uint16_t code : few_) {
    ++counters_[code * lanes()];
    touched_[code / kPage] = true;
  }
  unflushed_ = few_.size();
  few_ = {};
}

// Keeps codes of 16 bits as they are, while they are few and there are no counters.
bool CodeCounts::keep_few(ByteSpan packed) {
  if (!is_wide() || !counters_.empty()) return false;
  const std::size_t width = codes_ == Codes::kWords ? 2 : 4;
  const std::size_t codes = packed.size() / width;
  if (codes > kVeryFew - few_.size()) return false;
  for (std::size_t i = 0; i < codes; ++i) {
    few_.push_back(load_le<std::uint16_t>(packed.data() + i * width + (width - 2)));
  }
  return true;
}

void CodeCounts::add(ByteSpan packed) {
  if (packed.empty() || keep_few(packed)) return;
  allocate();
  while (!packed.empty()) {
    const ByteSpan step = packed.first(std::min(packed.size(), kStep));
    // There are four codes in three bytes at most.
    const std::uint64_t codes = step.size() * 4 / 3 + 1;
    if (unflushed_ + codes > kFlushAfter) flush();
    unflushed_ += codes;
    count(step);
    packed = packed.subspan(step.size());
  }
}

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

void CodeCounts::flush() {
  if (totals_.empty()) totals_.resize(counters_.size() / lanes());
  for_each([&](std::uint16_t code, std::uint64_t count) { totals_[code] = count; });
  std::fill(counters_.begin(), counters_.end(), 0u);
  unflushed_ = 0;
}

void CodeCounts::merge(const CodeCounts& other) {
  if (other.codes_ != codes_ || (other.counters_.empty() && other.few_.empty())) return;
  allocate();
  if (totals_.empty()) totals_.resize(counters_.size() / lanes());
  other.for_each([&](std::uint16_t code, std::uint64_t count) {
    totals_[code] += count;
    touched_[code / kPage] = true;
  });
}

void CodeCounts::clear() {
  few_.clear();
  for (std::size_t page = 0; page < pages(); ++page) {
    if (!touched_[page]) continue;
    std::fill_n(counters_.data() + page * kPage * lanes(), kPage * lanes(), 0u);
    if (!totals_.empty()) std::fill_n(totals_.data() + page * kPage, kPage, std::uint64_t{0});
  }
  touched_.fill(false);
  unflushed_ = 0;
}

}  // namespace espalier
