#include "espalier/base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace {

using espalier::decode_utf8;
using espalier::find_invalid_utf8;

/// The encoding of any 21-bit number in `length` bytes, whether or not UTF-8 allows it.
std::string encode(std::uint32_t value, int length) {
  if (length == 1) return std::string(1, static_cast<char>(value));
  std::string bytes;
  for (int i = 1; i < length; ++i) {
    bytes.insert(bytes.begin(), static_cast<char>(0x80 | (value & 0x3F)));
    value >>= 6;
  }
  const std::uint32_t lead = (0xF00u >> length & 0xFF) | value;
  bytes.insert(bytes.begin(), static_cast<char>(lead));
  return bytes;
}

int shortest(std::uint32_t value) {
  return value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
}

bool is_scalar(std::uint32_t value) {
  return value < 0xD800 || (value > 0xDFFF && value <= 0x10FFFF);
}

}  // namespace

TEST_CASE("utf8: every value in every length") {
  int wrong = 0;
  for (std::uint32_t value = 0; value < 0x200000; ++value) {
    for (int length = shortest(value); length <= 4; ++length) {
      const std::string bytes = encode(value, length);
      const bool valid = is_scalar(value) && length == shortest(value);
      const auto decoded = decode_utf8(bytes, 0);
      wrong += valid != !find_invalid_utf8(bytes);
      wrong += valid != (decoded.length == bytes.size() && decoded.code_point == value);
      wrong += !valid && decoded.length != 0;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("utf8: the offset is where the good text ends, at any alignment") {
  const std::string bad[] = {"\x80",         "\xC3",         "\xC0\x80",         "\xE2\x82",
                             "\xED\xA0\x80", "\xF0\x9F\x98", "\xF4\x90\x80\x80", "\xFF",
                             "\xC3\xC3\xA9", "\xE2\x28\xA1", "\xF8\x88\x80\x80"};
  for (const std::string& mistake : bad) {
    for (const std::string unit : {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
      std::string good;
      for (int i = 0; i < 40; ++i, good += unit) {
        CHECK(find_invalid_utf8(good) == std::nullopt);
        CHECK(find_invalid_utf8(good + mistake) == good.size());
        CHECK(find_invalid_utf8(good + mistake + "and more text after it") == good.size());
      }
    }
  }
  CHECK(find_invalid_utf8(std::string_view()) == std::nullopt);
  CHECK(find_invalid_utf8(espalier::ByteSpan()) == std::nullopt);
  CHECK(find_invalid_utf8(std::string_view("\0", 1)) == std::nullopt);
}

TEST_CASE("utf8: a character that the text cuts off is wrong, whatever memory holds after it") {
  const std::string whole = "\xF0\x9F\x98\x80";
  for (std::size_t length = 1; length < whole.size(); ++length) {
    const auto cut = std::string_view(whole).substr(0, length);
    CHECK(decode_utf8(cut, 0).length == 0);
    CHECK(find_invalid_utf8(cut) == 0);
  }
  const std::string_view later = "abc\xC3\xA9";
  CHECK(find_invalid_utf8(later.substr(0, 4)) == 3);
}

TEST_CASE("utf8: random bytes agree with decoding one character after the other") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    while (text.size() < random() % 40) {
      const auto kind = random() % 8;
      if (kind < 5) text += static_cast<char>('a' + random() % 26);
      if (kind == 5) text += "\xE2\x82\xAC";
      if (kind == 6) text += "\xF0\x9F\x98\x80";
      if (kind == 7) text += static_cast<char>(random() % 256);
    }
    std::size_t offset = 0;
    std::size_t chars = 0;
    while (offset < text.size()) {
      const auto length = decode_utf8(text, offset).length;
      if (length == 0) break;
      offset += length;
      ++chars;
    }
    const auto invalid = find_invalid_utf8(text);
    REQUIRE(invalid.value_or(text.size()) == offset);
    REQUIRE(espalier::count_utf8_chars(text.substr(0, offset)) == chars);
  }
}
