#include "espalier/health/runs.h"

#include <cstring>

#include "espalier/base/little_endian.h"

namespace espalier {

// A run is long, so it covers whole stretches of half its least length. Only where such a stretch
// is of one value are its elements looked at; most differ at their ends.
template <class Bits>
void RunFinder::find(ByteSpan packed) {
  const std::size_t count = packed.size() / sizeof(Bits);
  const auto at = [&](std::size_t i) { return load_le<Bits>(packed.data() + i * sizeof(Bits)); };
  // The first element from `i` on that is not like the one at `i`.
  const auto end_of_run = [&](std::size_t i) {
    const Bits value = at(i);
    while (i < count && at(i) == value) ++i;
    return i;
  };
  std::size_t i = 0;
  if (elements_ > begin_ && at(0) == static_cast<Bits>(value_)) i = end_of_run(0);
  if (i == count) {
    elements_ += count;
    return;
  }
  if (elements_ + i - begin_ >= least_) record(runs_, begin_, elements_ + i - begin_, value_ == 0);
  const auto stretch = static_cast<std::size_t>(least_ / 2);
  while (i + stretch <= count) {
    const bool may_be_one = at(i) == at(i + stretch - 1) && at(i) == at(i + stretch / 2);
    if (!may_be_one || end_of_run(i) < i + stretch) {
      i += stretch;
      continue;
    }
    std::size_t first = i;
    while (first > 0 && at(first - 1) == at(i)) --first;
    const std::size_t last = end_of_run(i);
    if (last == count) {
      begin_ = elements_ + first;
      value_ = at(first);
      elements_ += count;
      return;
    }
    if (last - first >= least_) record(runs_, elements_ + first, last - first, at(first) == 0);
    i = last;
  }
  // The end may begin a run, which may begin before the last stretch did.
  std::size_t begin = count - 1;
  while (begin > 0 && at(begin - 1) == at(count - 1)) --begin;
  begin_ = elements_ + begin;
  value_ = at(count - 1);
  elements_ += count;
}

void RunFinder::add(ByteSpan packed) {
  if (packed.size() < width_) return;
  switch (width_) {
    case 1:
      return find<std::uint8_t>(packed);
    case 2:
      return find<std::uint16_t>(packed);
    case 4:
      return find<std::uint32_t>(packed);
    default:
      return find<std::uint64_t>(packed);
  }
}

void RunFinder::record(Runs& runs, std::uint64_t begin, std::uint64_t size, bool is_zero) {
  ++runs.count;
  runs.elements += size;
  if (size <= runs.size) return;
  runs.begin = begin;
  runs.size = size;
  runs.is_zero = is_zero;
}

Runs RunFinder::runs() const {
  Runs runs = runs_;
  if (elements_ > begin_ && elements_ - begin_ >= least_) {
    record(runs, begin_, elements_ - begin_, value_ == 0);
  }
  return runs;
}

}  // namespace espalier
