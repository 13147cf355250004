#include "espalier/health/distinct_values.h"

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr unsigned kPlacesLog = 13;  // twice as many places as values
constexpr std::size_t kPlaces = std::size_t{1} << kPlacesLog;
static_assert(kPlaces >= 2 * DistinctValues::kMost);

// By Fibonacci hashing: https://en.wikipedia.org/wiki/Hash_function#Fibonacci_hashing
std::size_t place_of(std::uint64_t bits) {
  return static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15U) >> (64 - kPlacesLog));
}

}  // namespace

template <class Bits>
void DistinctValues::insert(ByteSpan packed) {
  std::uint64_t last = 0;
  for (std::size_t at = 0; at < packed.size() && count_ < kMost; at += sizeof(Bits)) {
    const std::uint64_t bits = load_le<Bits>(packed.data() + at);
    if (bits == last && at > 0) continue;
    last = bits;
    if (bits == 0) {
      if (!has_zero_) ++count_;
      has_zero_ = true;
      continue;
    }
    std::size_t place = place_of(bits);
    while (table_[place] != 0 && table_[place] != bits) place = (place + 1) % kPlaces;
    if (table_[place] == 0) ++count_;
    table_[place] = bits;
  }
}

void DistinctValues::add(ByteSpan packed) {
  if (count_ >= kMost || packed.empty()) return;
  if (table_.empty()) table_.resize(kPlaces);
  if (width_ == sizeof(std::uint64_t)) {
    insert<std::uint64_t>(packed);
  } else {
    insert<std::uint32_t>(packed);
  }
}

}  // namespace espalier
