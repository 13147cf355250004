#include "espalier/health/distinct_values.h"

#include <utility>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr unsigned kFirstPlacesLog = 6;

}  // namespace

// By Fibonacci hashing: https://en.wikipedia.org/wiki/Hash_function#Fibonacci_hashing
std::size_t DistinctValues::place_of(std::uint64_t bits) const {
  std::size_t place = static_cast<std::size_t>((bits * 0x9e3779b97f4a7c15U) >> (64 - places_log_));
  while (table_[place] != 0 && table_[place] != bits) place = (place + 1) % table_.size();
  return place;
}

// Keeps twice as many places as values. Small tensors are many, and have few values.
void DistinctValues::grow() {
  places_log_ = table_.empty() ? kFirstPlacesLog : places_log_ + 1;
  const std::vector<std::uint64_t> old =
      std::exchange(table_, std::vector<std::uint64_t>(std::size_t{1} << places_log_));
  for (const std::uint64_t bits : old) {
    if (bits != 0) table_[place_of(bits)] = bits;
  }
}

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
    const std::size_t place = place_of(bits);
    if (table_[place] == bits) continue;
    table_[place] = bits;
    if (++count_ * 2 > table_.size()) grow();
  }
}

void DistinctValues::add(ByteSpan packed) {
  if (count_ >= kMost || packed.empty()) return;
  if (table_.empty()) grow();
  if (width_ == sizeof(std::uint64_t)) {
    insert<std::uint64_t>(packed);
  } else {
    insert<std::uint32_t>(packed);
  }
}

}  // namespace espalier
