#include "espalier/base/utf8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080;

/// The sequence length for a lead byte, or 0 for a byte that cannot lead. 0xC0 and 0xC1 could only
/// lead overlong forms, 0xF5 and above only values past U+10FFFF.
constexpr std::size_t announced_length(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  if (lead < 0xF5) return 4;
  return 0;
}

constexpr bool is_continuation(unsigned byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return static_cast<unsigned char>(text[offset + i]);
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};

  const std::size_t length = announced_length(lead);
  if (length == 0 || length > text.size() - offset) return {};
  char32_t value = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[length] || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const ByteSpan bytes = as_bytes(text);
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    // The end of a text is read as if zeros followed: most texts are short.
    const std::size_t size = std::min(sizeof(std::uint64_t), bytes.size() - offset);
    std::uint64_t word = 0;
    if (size == sizeof word) {
      word = load_le<std::uint64_t>(bytes.data() + offset);
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        word |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
      }
    }
    const std::uint64_t high = word & kHighBits;
    if (high == 0) {
      offset += size;
      continue;
    }
    // Little-endian: the lowest set bit belongs to the first byte that is not ASCII.
    offset += static_cast<std::size_t>(std::countr_zero(high)) / 8;
    const std::size_t length = decode_utf8(text, offset).length;
    if (length == 0) return offset;
    offset += length;
  }
  return std::nullopt;
}

std::size_t count_utf8_chars(std::string_view text) {
  const auto starts_char = [](char c) { return !is_continuation(static_cast<unsigned char>(c)); };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_char));
}

}  // namespace espalier
