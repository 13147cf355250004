#include "espalier/health/anchors.h"

#include <algorithm>
#include <span>

#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
constexpr unsigned kBitsOfMost = 6;    // one of 64 elements
constexpr unsigned kBitsOfLarge = 10;  // one of 1,024

constexpr std::uint32_t rotated(std::uint32_t x, unsigned by) { return x << by | x >> (32 - by); }

std::uint32_t folded(std::uint32_t bits) { return bits; }
std::uint32_t folded(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits ^ (bits >> 32) * 0x9e3779b9U);
}

}  // namespace

AnchorFinder::AnchorFinder(std::size_t width, std::uint64_t elements)
    : width_(width), shift_(32 - (elements > kLarge ? kBitsOfLarge : kBitsOfMost)) {}

template <class Bits>
void AnchorFinder::fold(ByteSpan packed) {
  const std::size_t count = packed.size() / sizeof(Bits);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = load_le<Bits>(packed.data() + i * sizeof(Bits));
    if constexpr (sizeof(Bits) < 8) {
      folded_[kept_ + i] = folded(std::uint32_t{bits});
    } else {
      folded_[kept_ + i] = folded(bits);
    }
  }
}

void AnchorFinder::add(ByteSpan packed) {
  const std::size_t added = packed.size() / width_;
  if (folded_.empty()) {
    folded_.resize(kMostAtOnce + kWindow - 1);
    mixed_.resize(kMostAtOnce + kWindow - 1);
  }
  switch (width_) {
    case 2:
      fold<std::uint16_t>(packed);
      break;
    case 4:
      fold<std::uint32_t>(packed);
      break;
    default:
      fold<std::uint64_t>(packed);
      break;
  }
  const std::size_t count = kept_ + added;
  // In three steps, each over the whole block, so that compilers vectorise them: a hash of one
  // element, of two, of four, of eight.
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t x = folded_[i] * 0x9e3779b1U;
    x ^= x >> 15;
    mixed_[i] = x * 0x85ebca77U;
  }
  const auto join = [&](std::size_t distance, unsigned turn) {
    for (std::size_t i = 0; i + distance < count; ++i) {
      mixed_[i] += rotated(mixed_[i + distance], turn) * 0x9e3779b1U;
    }
  };
  join(1, 7);
  join(2, 11);
  join(4, 17);
  for (std::size_t i = 0; i + kWindow <= count; ++i) {
    if (mixed_[i] >> shift_ != 0) continue;
    const std::uint32_t* const from = folded_.data() + i;
    if (from[0] == from[1] || from[1] == from[3] || from[0] == from[5]) continue;
    anchors_.push_back({hash64(std::as_bytes(std::span(from, kWindow))), elements_ + i});
  }
  const std::size_t keep = std::min(count, kWindow - 1);
  std::copy(folded_.begin() + static_cast<std::ptrdiff_t>(count - keep),
            folded_.begin() + static_cast<std::ptrdiff_t>(count), folded_.begin());
  elements_ += count - keep;
  kept_ = keep;
}

}  // namespace espalier
