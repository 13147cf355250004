#include "espalier/foreign/hdf5/checksums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// Words that can be added before the sums of 32 bits have to be folded.
constexpr std::size_t kFletcherWords = 360;

constexpr std::uint32_t fold(std::uint32_t sum) { return (sum & 0xFFFF) + (sum >> 16); }

}  // namespace

std::uint32_t lookup3(ByteSpan bytes) {
  std::uint32_t a = 0xDEADBEEF + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add = [&](const std::byte* at) {
    a += load_le<std::uint32_t>(at);
    b += load_le<std::uint32_t>(at + 4);
    c += load_le<std::uint32_t>(at + 8);
  };
  while (bytes.size() > 12) {
    add(bytes.data());
    a = (a - c) ^ std::rotl(c, 4), c += b;
    b = (b - a) ^ std::rotl(a, 6), a += c;
    c = (c - b) ^ std::rotl(b, 8), b += a;
    a = (a - c) ^ std::rotl(c, 16), c += b;
    b = (b - a) ^ std::rotl(a, 19), a += c;
    c = (c - b) ^ std::rotl(b, 4), b += a;
    bytes = bytes.subspan(12);
  }
  if (bytes.empty()) return c;
  std::array<std::byte, 12> last{};
  std::copy(bytes.begin(), bytes.end(), last.begin());
  add(last.data());
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  return (c ^ b) - std::rotl(b, 24);
}

std::uint32_t fletcher32(ByteSpan bytes) {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  const auto word = [&](std::size_t at) {
    return std::to_integer<std::uint32_t>(bytes[at]) << 8 |
           std::to_integer<std::uint32_t>(bytes[at + 1]);
  };
  const std::size_t words = bytes.size() / 2;
  for (std::size_t i = 0; i < words;) {
    const std::size_t end = std::min(words, i + kFletcherWords);
    for (; i < end; ++i) {
      low += word(2 * i);
      high += low;
    }
    low = fold(low);
    high = fold(high);
  }
  if (bytes.size() % 2 != 0) {
    low += std::to_integer<std::uint32_t>(bytes.back()) << 8;
    high += low;
    low = fold(low);
    high = fold(high);
  }
  return fold(high) << 16 | fold(low);
}

}  // namespace espalier
