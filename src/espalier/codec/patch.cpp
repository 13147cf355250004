#include "espalier/codec/patch.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// Merges the planes of differences piece by piece, so that the merged ones stay in the nearest
// cache.
class Differences {
 public:
  static constexpr std::size_t kBytes = 4096;

  Differences(std::size_t width, const PlanePointers<const std::byte>& planes, std::size_t count)
      : width_(width), planes_(planes), left_(count) {}

  /// The next differences, of `width` bytes each; empty after the last one.
  ByteSpan next() {
    const std::size_t n = std::min(left_, kBytes / width_);
    const MutableByteSpan merged = MutableByteSpan(merged_).first(n * width_);
    merge_planes({static_cast<std::uint8_t>(width_), false}, planes_, merged);
    for (std::size_t k = 0; k < width_; ++k) planes_[k] += n;
    left_ -= n;
    return merged;
  }

 private:
  std::size_t width_;
  PlanePointers<const std::byte> planes_;
  std::size_t left_;
  std::array<std::byte, kBytes> merged_;
};

template <class Word>
void add(Word zigzag, std::byte* element) {
  const auto difference = static_cast<Word>(Word(zigzag >> 1) ^ Word(Word{0} - Word(zigzag & 1u)));
  store_le(element, static_cast<Word>(load_le<Word>(element) + difference));
}

template <class Word>
void add_all(Differences& differences, std::byte* element) {
  for (ByteSpan some = differences.next(); !some.empty(); some = differences.next()) {
    for (std::size_t i = 0; i < some.size(); i += sizeof(Word)) {
      add(load_le<Word>(some.data() + i), element + i);
    }
    element += some.size();
  }
}

// Goes from one changed element to the next.
class Positions {
 public:
  /// `gaps` is followed by one more byte, which is zero.
  explicit Positions(ByteSpan gaps) : gap_(gaps.data()), end_(gaps.data() + gaps.size()) {}

  /// Moves to the next changed element, which must be below `n`. False if it is not, or if its gap
  /// is missing or not the shortest number.
  bool advance(std::uint64_t n) {
    if (gap_ >= end_) return false;
    // The zero byte at the end stops a number that is cut off, which is then not the shortest.
    auto byte = std::to_integer<std::uint32_t>(*gap_++);
    std::uint64_t skipped = byte & 0x7Fu;
    for (unsigned shift = 7; byte >= 0x80u; shift += 7) {
      byte = std::to_integer<std::uint32_t>(*gap_++);
      // Four bytes more go beyond any chunk, and `skipped` cannot overflow.
      if (byte == 0 || shift > 28) return false;
      skipped |= std::uint64_t{byte & 0x7Fu} << shift;
    }
    position_ = next_ + skipped;
    next_ = position_ + 1;
    return position_ < n;
  }

  std::size_t position() const { return static_cast<std::size_t>(position_); }
  bool at_end() const { return gap_ == end_; }

 private:
  const std::byte* gap_;
  const std::byte* end_;
  std::uint64_t position_ = 0;
  std::uint64_t next_ = 0;
};

template <class Word>
bool add_some(ByteSpan some, Positions& positions, MutableByteSpan logical) {
  Positions at = positions;  // a copy stays in registers: `logical` could be its memory
  for (std::size_t i = 0; i < some.size(); i += sizeof(Word)) {
    const auto difference = load_le<Word>(some.data() + i);
    if (!at.advance(logical.size() / sizeof(Word)) || difference == 0) return false;
    add(difference, logical.data() + at.position() * sizeof(Word));
  }
  positions = at;
  return true;
}

// The same, where elements are so far apart that each one is likely to wait for memory. It asks for
// many of them before it changes the first, so that they come at the same time.
template <class Word>
bool add_distant(ByteSpan some, Positions& positions, MutableByteSpan logical) {
  constexpr std::size_t kTogether = 256;
  std::array<std::byte*, kTogether> elements;
  Positions at = positions;
  while (!some.empty()) {
    const ByteSpan few = some.first(std::min(kTogether * sizeof(Word), some.size()));
    some = some.subspan(few.size());
    const std::size_t count = few.size() / sizeof(Word);
    for (std::size_t i = 0; i < count; ++i) {
      if (!at.advance(logical.size() / sizeof(Word))) return false;
      elements[i] = logical.data() + at.position() * sizeof(Word);
      __builtin_prefetch(elements[i], 1);
    }
    bool is_any_zero = false;
    for (std::size_t i = 0; i < count; ++i) {
      const auto difference = load_le<Word>(few.data() + i * sizeof(Word));
      is_any_zero |= difference == 0;
      add(difference, elements[i]);
    }
    if (is_any_zero) return false;
  }
  positions = at;
  return true;
}

#ifdef __EMSCRIPTEN__
constexpr bool kHasPrefetch = false;  // and no bytes for it in the module
#else
constexpr bool kHasPrefetch = true;
#endif

template <class Word>
bool apply_all(Differences& differences, std::size_t count, ByteSpan gaps,
               MutableByteSpan logical) {
  // Measured: with less than some 32 bytes from one change to the next, the processor's own
  // prefetching is as good.
  const bool is_distant = kHasPrefetch && count < logical.size() / 32;
  Positions positions(gaps.first(gaps.size() - 1));
  for (ByteSpan some = differences.next(); !some.empty(); some = differences.next()) {
    const bool ok = is_distant ? add_distant<Word>(some, positions, logical)
                               : add_some<Word>(some, positions, logical);
    if (!ok) return false;
  }
  return positions.at_end();
}

}  // namespace

void add_differences(std::size_t width, const PlanePointers<const std::byte>& planes,
                     MutableByteSpan logical) {
  Differences differences(width, planes, logical.size() / width);
  switch (width) {
    case 2:
      return add_all<std::uint16_t>(differences, logical.data());
    case 4:
      return add_all<std::uint32_t>(differences, logical.data());
    case 8:
      return add_all<std::uint64_t>(differences, logical.data());
    default:
      return add_all<std::uint8_t>(differences, logical.data());
  }
}

bool apply_changes(std::size_t width, ByteSpan gaps, const PlanePointers<const std::byte>& planes,
                   std::size_t count, MutableByteSpan logical) {
  Differences differences(width, planes, count);
  switch (width) {
    case 2:
      return apply_all<std::uint16_t>(differences, count, gaps, logical);
    case 4:
      return apply_all<std::uint32_t>(differences, count, gaps, logical);
    case 8:
      return apply_all<std::uint64_t>(differences, count, gaps, logical);
    default:
      return apply_all<std::uint8_t>(differences, count, gaps, logical);
  }
}

}  // namespace espalier
