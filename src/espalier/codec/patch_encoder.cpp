#include "espalier/codec/patch_encoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "espalier/base/little_endian.h"
#include "espalier/codec/patch.h"
#include "espalier/codec/planes.h"
#include "espalier/codec/repeats.h"

namespace espalier {
namespace {

// The size of a patch's changed part.
struct Changes {
  std::size_t count = 0;
  std::size_t gap_bytes = 0;
};

template <class Word>
Word difference(const std::byte* base, const std::byte* logical) {
  const auto d = static_cast<Word>(load_le<Word>(logical) - load_le<Word>(base));
  const auto sign = static_cast<Word>(Word{0} - Word(d >> (8 * sizeof(Word) - 1)));
  return static_cast<Word>(Word(d << 1) ^ sign);
}

template <class Word>
void all_differences(ByteSpan base, ByteSpan logical, MutableByteSpan differences) {
  for (std::size_t i = 0; i < logical.size(); i += sizeof(Word)) {
    store_le(differences.data() + i, difference<Word>(base.data() + i, logical.data() + i));
  }
}

constexpr std::size_t kGroup = 64;  // bytes that are compared together

bool equal_groups(const std::byte* a, const std::byte* b) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kGroup; i += sizeof bits) {
    bits |= load_le<std::uint64_t>(a + i) ^ load_le<std::uint64_t>(b + i);
  }
  return bits == 0;
}

// The differences of the elements that have changed, and their gaps. Both have room for a change of
// every element.
template <class Word>
Changes find_changes(ByteSpan base, ByteSpan logical, MutableByteSpan differences,
                     MutableByteSpan gaps) {
  std::byte* to = differences.data();
  std::byte* gap = gaps.data();
  std::size_t next = 0;
  for (std::size_t begin = 0; begin < logical.size(); begin += kGroup) {
    const std::byte* const before = base.data() + begin;
    const std::byte* const after = logical.data() + begin;
    const std::size_t size = std::min(kGroup, logical.size() - begin);
    if (size == kGroup && equal_groups(before, after)) continue;
    // A bit for each element that has changed: the processor could not predict a branch for each.
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < size / sizeof(Word); ++i) {
      const bool is_changed =
          load_le<Word>(before + i * sizeof(Word)) != load_le<Word>(after + i * sizeof(Word));
      changed |= std::uint64_t{is_changed} << i;
    }
    for (; changed != 0; changed &= changed - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(changed));
      store_le(to, difference<Word>(before + i * sizeof(Word), after + i * sizeof(Word)));
      to += sizeof(Word);
      const std::size_t at = begin / sizeof(Word) + i;
      std::size_t skipped = at - next;
      for (; skipped >= 0x80; skipped >>= 7) *gap++ = static_cast<std::byte>(skipped | 0x80);
      *gap++ = static_cast<std::byte>(skipped);
      next = at + 1;
    }
  }
  return {static_cast<std::size_t>(to - differences.data()) / sizeof(Word),
          static_cast<std::size_t>(gap - gaps.data())};
}

// Calls `function` with a word of `width` bytes.
template <class Function>
auto with_word(std::size_t width, const Function& function) {
  switch (width) {
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    case 8:
      return function(std::uint64_t{});
    default:
      return function(std::uint8_t{});
  }
}

// Never shrinks: sizes vary.
void grow(std::vector<std::byte>& bytes, std::size_t size) {
  if (bytes.size() < size) bytes.resize(size);
}

// The logarithm to base 2 in units of 1/256, linear between powers of two: in integer arithmetic,
// so that it is the same on every machine.
std::uint64_t log2_of(std::uint64_t x) {
  const auto top = static_cast<unsigned>(std::bit_width(x) - 1);
  return top * 256u + ((x << 8 >> top) - 256u);
}

// How often the values of a stream occur.
class Census {
 public:
  explicit Census(ByteSpan stream) : n_(stream.size()) {
    // Several tables: a processor waits where it adds to the same number twice in a row.
    constexpr std::size_t kTables = 4;
    std::array<std::array<std::uint32_t, 256>, kTables> tables = {};
    std::size_t i = 0;
    for (; i + kTables <= n_; i += kTables) {
      for (std::size_t t = 0; t < kTables; ++t) {
        ++tables[t][std::to_integer<std::size_t>(stream[i + t])];
      }
    }
    for (; i < n_; ++i) ++tables[0][std::to_integer<std::size_t>(stream[i])];
    for (std::size_t value = 0; value < counts_.size(); ++value) {
      for (const auto& table : tables) counts_[value] += table[value];
    }
  }

  void add_zeros(std::size_t n) {
    counts_[0] += n;
    n_ += n;
  }

  /// Of the most frequent value.
  std::size_t most() const { return *std::max_element(counts_.begin(), counts_.end()); }

  /// Whether some are so frequent that an entropy code helps: the measure of ChunkSample.
  bool is_uneven() const { return squares() * 256 / n_ * 10 > (n_ + 255) * 11; }

  /// Whether values differ so much that 8 bytes repeat only for a reason.
  bool is_varied() const { return squares() / n_ * 16 < n_; }

  /// The entropy of the stream in bits / 256, if values are independent.
  std::uint64_t entropy() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) {
      if (count != 0) sum += count * (log2_of(n_) - log2_of(count));
    }
    return sum;
  }

 private:
  std::uint64_t squares() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count * count;
    return sum;
  }

  std::array<std::size_t, 256> counts_ = {};
  std::size_t n_;
};

}  // namespace

std::size_t PatchEncoder::memory_bytes() {
  // Two contexts of zstd, and the vectors. Gaps take at most a byte for each element, so a patch
  // that turns out too large may have two chunks' bytes.
  return std::size_t{8} << 20;
}

Result<std::optional<ByteSpan>> PatchEncoder::encode(ByteSpan base, ByteSpan logical,
                                                     ElementLayout layout, std::size_t most) {
  const std::size_t width = layout.width;
  const std::size_t n = logical.size() / width;
  std::optional<ByteSpan> patch;
  if (n == 0) return patch;
  most = std::min(most, logical.size() - 1);
  grow(differences_, logical.size());
  // A gap of two bytes leaves more than a hundred elements out.
  grow(gaps_, n);
  const Changes changes = with_word(width, [&](auto word) {
    return find_changes<decltype(word)>(base, logical, differences_, gaps_);
  });
  if (changes.count == 0) return patch;
  ByteSpan gaps = ByteSpan(gaps_).first(changes.gap_bytes);
  std::size_t count = changes.count;
  split(width, count);
  if (count == n || (count > n / 2 && dense_is_smaller(width, count, n, gaps))) {
    with_word(width,
              [&](auto word) { all_differences<decltype(word)>(base, logical, differences_); });
    gaps = {};
    count = n;
    split(width, count);
  }
  const auto size = store(width, count, gaps, most);
  if (!size) return propagate(size);
  if (*size) patch = ByteSpan(patch_).first(**size);
  return patch;
}

// The planes of the first `count` differences.
void PatchEncoder::split(std::size_t width, std::size_t count) {
  grow(planes_, count * width);
  PlanePointers<std::byte> planes = {};
  for (std::size_t k = 0; k < width; ++k) planes[k] = planes_.data() + k * count;
  split_planes({static_cast<std::uint8_t>(width), false},
               ByteSpan(differences_).first(count * width), planes);
}

// Whether zeros for the unchanged ones of `n` elements take less room than the gaps.
bool PatchEncoder::dense_is_smaller(std::size_t width, std::size_t count, std::size_t n,
                                    ByteSpan gaps) const {
  std::uint64_t sparse = Census(gaps).entropy();
  std::uint64_t dense = 0;
  for (std::size_t k = 0; k < width; ++k) {
    Census census(ByteSpan(planes_).subspan(k * count, count));
    sparse += census.entropy();
    census.add_zeros(n - count);
    dense += census.entropy();
  }
  return dense <= sparse;
}

// Puts the patch of the `count` differences in `planes_` into `patch_` and returns its size;
// nullopt if it takes more than `most` bytes.
Result<std::optional<std::size_t>> PatchEncoder::store(std::size_t width, std::size_t count,
                                                       ByteSpan gaps, std::size_t most) {
  std::size_t at = patch_head_bytes(width);
  // Room for all streams as they are. So no result depends on `most`: near the end of its room,
  // zstd gives up early.
  grow(patch_, at + gaps.size() + count * width);
  store_le(patch_.data(), static_cast<std::uint32_t>(count));
  store_le(patch_.data() + sizeof(std::uint32_t), static_cast<std::uint32_t>(gaps.size()));
  std::byte* length = patch_.data() + 2 * sizeof(std::uint32_t);
  for (std::size_t k = 0; k <= width; ++k) {
    const ByteSpan stream = k == 0 ? gaps : ByteSpan(planes_).subspan((k - 1) * count, count);
    const auto size = encode_stream(stream, patch_.data() + at);
    if (!size) return propagate(size);
    at += *size;
    if (at > most) return std::optional<std::size_t>();
    store_le(length, static_cast<std::uint32_t>(*size));
    length += sizeof(std::uint32_t);
  }
  return std::optional(at);
}

// Puts a stream into `out` in its smallest form and returns its length.
Result<std::size_t> PatchEncoder::encode_stream(ByteSpan stream, std::byte* out) {
  const std::size_t n = stream.size();
  if (n == 0) return n;
  const Census census(stream);
  const std::size_t rare = n - census.most();
  if (rare == 0) {
    *out = stream[0];
    return std::size_t{1};
  }
  // A code for single bytes takes a bit for each of them, however rare the others are. Measured on
  // independent values, matches are smaller where less than one in some ten is rare, and always
  // where it is one in 16.
  const bool only_matches = rare < n / 16;
  const bool has_matches = rare < n / 8 || (census.is_varied() ? has_repeated_words(stream)
                                                               : has_repeated_long_words(stream));
  std::optional<std::size_t> best;
  if (census.is_uneven() && !only_matches) {
    const auto size = entropy_.encode(stream, {out, n - 1});
    if (!size) return propagate(size);
    best = *size;
  }
  if (has_matches) {
    grow(frame_, n);
    const auto size = matches_.encode(stream, {frame_.data(), best.value_or(n) - 1});
    if (!size) return propagate(size);
    if (*size) {
      best = *size;
      std::copy_n(frame_.begin(), **size, out);
    }
  }
  if (best) return *best;
  std::copy(stream.begin(), stream.end(), out);
  return n;
}

}  // namespace espalier
