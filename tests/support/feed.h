// Ways to hand the bytes of a file to a machine (opener, fetch, verify).
#ifndef ESPALIER_TESTS_SUPPORT_FEED_H_
#define ESPALIER_TESTS_SUPPORT_FEED_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/random.h"

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier::testing {

inline ByteSpan bytes_at(ByteSpan file, const Extent& extent) {
  return file.subspan(static_cast<std::size_t>(extent.offset),
                      static_cast<std::size_t>(extent.length));
}

/// Everything at once, wanted or not.
template <class Machine>
Result<void> feed_whole(Machine& machine, ByteSpan file) {
  return machine.feed({0, 0, file.size()}, file);
}

/// Feeds the needed bytes, `step` at a time.
template <class Machine>
Result<void> feed_steps(Machine& machine, ByteSpan file, std::uint64_t step) {
  while (!machine.needs().empty()) {
    Extent extent = machine.needs().front();
    extent.length = std::min(extent.length, step);
    if (auto ok = machine.feed(extent, bytes_at(file, extent)); !ok) return ok;
  }
  return {};
}

/// Feeds pieces of random sizes in random order, which overlap, repeat and include unneeded bytes.
template <class Machine>
Result<void> feed_scrambled(Machine& machine, ByteSpan file, Random& random) {
  while (!machine.needs().empty()) {
    std::vector<Extent> pieces;
    const std::uint64_t most = 1 + file.size() / (1 + random.below(10));
    for (std::uint64_t offset = 0; offset < file.size();) {
      const std::uint64_t length = std::min(1 + random.below(most), file.size() - offset);
      const std::uint64_t more = std::min(random.below(most), file.size() - offset - length);
      pieces.push_back({0, offset, length + more});
      if (random.one_in(5)) pieces.push_back(pieces.back());
      if (random.one_in(9)) pieces.push_back({0, offset, 0});
      if (random.one_in(9)) pieces.push_back({1, offset, length});
      offset += length;
    }
    random.shuffle(pieces);
    for (const Extent& piece : pieces) {
      if (auto ok = machine.feed(piece, bytes_at(file, piece)); !ok) return ok;
    }
  }
  return {};
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_FEED_H_
