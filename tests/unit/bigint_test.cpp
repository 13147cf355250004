#include "espalier/bigint.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

using espalier::BigInt;
using espalier::ErrorCode;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

bool encodes(const BigInt& value, const std::vector<std::byte>& expected) {
  return std::vector<std::byte>(value.bytes().begin(), value.bytes().end()) == expected;
}

BigInt decimal(std::string_view text) {
  const auto value = BigInt::from_decimal(text);
  REQUIRE(value);
  return *value;
}

}  // namespace

TEST_CASE("bigint: the shortest encoding at the edges") {
  CHECK(encodes(BigInt(), bytes_of({0})));
  CHECK(encodes(decimal("0"), bytes_of({0})));
  CHECK(encodes(decimal("-1"), bytes_of({0xFF})));
  CHECK(encodes(decimal("127"), bytes_of({0x7F})));
  CHECK(encodes(decimal("128"), bytes_of({0x80, 0})));
  CHECK(encodes(decimal("-128"), bytes_of({0x80})));
  CHECK(encodes(decimal("-129"), bytes_of({0x7F, 0xFF})));
  CHECK(encodes(decimal("255"), bytes_of({0xFF, 0})));
  CHECK(encodes(decimal("-256"), bytes_of({0, 0xFF})));
  CHECK(encodes(decimal("9223372036854775808"), bytes_of({0, 0, 0, 0, 0, 0, 0, 0x80, 0})));
  CHECK(encodes(decimal("-4294967296"), bytes_of({0, 0, 0, 0, 0xFF})));
}

TEST_CASE("bigint: large known values") {
  // 2**256 and 10**40, as Python gives them.
  std::vector<std::byte> power(33);
  power.back() = std::byte{1};
  CHECK(encodes(
      decimal("115792089237316195423570985008687907853269984665640564039457584007913129639936"),
      power));
  const auto ten_to_40 = bytes_of({0x00, 0x00, 0x00, 0x00, 0x00, 0x61, 0xF5, 0xB9, 0xAB, 0xBF, 0xA4,
                                   0x5C, 0xC3, 0xF1, 0x29, 0x63, 0x1D});
  CHECK(encodes(decimal("10000000000000000000000000000000000000000"), ten_to_40));
  for (int digits = 1; digits < 400; ++digits) {
    // Zeros in the middle of every chunk, and both ends of every length.
    for (std::string text : {"1" + std::string(static_cast<std::size_t>(digits), '0'),
                             std::string(static_cast<std::size_t>(digits), '9')}) {
      CHECK(decimal(text).to_decimal() == text);
      CHECK(decimal("-" + text).to_decimal() == "-" + text);
    }
  }
}

TEST_CASE("bigint: agrees with 128-bit arithmetic") {
  __extension__ using Wide = __int128;
  __extension__ using UnsignedWide = unsigned __int128;
  std::mt19937_64 random(4);
  for (int round = 0; round < 50000; ++round) {
    // All lengths are equally likely. The low bits are often all zeros or ones.
    auto bits = static_cast<UnsignedWide>(random()) << 64 | random();
    if (random() % 4 == 0) bits &= ~UnsignedWide{0} << (random() % 128);
    if (random() % 4 == 0) bits |= ~(~UnsignedWide{0} << (random() % 128));
    const auto value = static_cast<Wide>(bits) >> (random() % 128);

    std::vector<std::byte> encoding;
    Wide rest = value;
    do {
      encoding.push_back(static_cast<std::byte>(rest & 0xFF));
      rest >>= 8;
    } while (rest != ((encoding.back() & std::byte{0x80}) != std::byte{} ? -1 : 0));
    std::string text;
    Wide quotient = value;
    do {
      const int digit = static_cast<int>(quotient % 10);
      text.insert(text.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
      quotient /= 10;
    } while (quotient != 0);
    if (value < 0) text.insert(text.begin(), '-');

    const BigInt number = decimal(text);
    REQUIRE(encodes(number, encoding));
    REQUIRE(number.to_decimal() == text);
    REQUIRE(number.is_negative() == (value < 0));
    const auto copy = BigInt::from_bytes(encoding);
    REQUIRE(copy);
    REQUIRE(*copy == number);

    const auto narrow = static_cast<std::int64_t>(value);
    REQUIRE(number.fits_int64() == (narrow == value));
    if (narrow == value) {
      REQUIRE(number.to_int64() == narrow);
      REQUIRE(BigInt::from_int64(narrow) == number);
    } else {
      REQUIRE(number.to_int64() == std::nullopt);
    }
  }
}

TEST_CASE("bigint: encodings that are not the shortest are refused") {
  const auto code = [](const std::vector<std::byte>& bytes) {
    const auto value = BigInt::from_bytes(bytes);
    REQUIRE_FALSE(value);
    return value.error().code;
  };
  CHECK(code({}) == ErrorCode::kInvalidArgument);
  CHECK(code(bytes_of({0, 0})) == ErrorCode::kInvalidArgument);
  CHECK(code(bytes_of({0x7F, 0})) == ErrorCode::kInvalidArgument);
  CHECK(code(bytes_of({0xFF, 0xFF})) == ErrorCode::kInvalidArgument);
  CHECK(code(bytes_of({0x80, 0xFF})) == ErrorCode::kInvalidArgument);
  CHECK(BigInt::from_bytes(bytes_of({0x80, 0})));
  CHECK(BigInt::from_bytes(bytes_of({0x7F, 0xFF})));
  CHECK(BigInt::from_bytes(bytes_of({0, 1})));
}

TEST_CASE("bigint: text that is not what printing gives is refused") {
  for (const char* text : {"", "-", "+1", " 1", "1 ", "01", "-01", "-0", "00", "1e5", "0x10",
                           "1_000", "--1", "1.", "\xD9\xA1"}) {
    const auto value = BigInt::from_decimal(text);
    REQUIRE_FALSE_MESSAGE(value, text);
    CHECK(value.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("bigint: the limit counts encoded bytes") {
  // 1024 bytes hold -2**8191 to 2**8191 - 1.
  std::vector<std::byte> bytes(1024);
  bytes.back() = std::byte{0x80};
  const std::string smallest = BigInt::from_bytes(bytes)->to_decimal();
  CHECK(smallest.size() == 1 + 2466);
  const auto fits = BigInt::from_decimal(smallest);
  REQUIRE(fits);
  CHECK(encodes(*fits, bytes));

  const auto code = [](const std::string& text, std::size_t max_bytes = 1024) {
    const auto value = BigInt::from_decimal(text, max_bytes);
    REQUIRE_FALSE(value);
    return value.error().code;
  };
  const std::string too_large = smallest.substr(1);  // 2**8191
  CHECK(code(too_large) == ErrorCode::kLimitExceeded);
  CHECK(BigInt::from_decimal(too_large, 1025));
  CHECK(BigInt::from_decimal(too_large, std::numeric_limits<std::size_t>::max()));
  CHECK(code(std::string(10'000'000, '9')) == ErrorCode::kLimitExceeded);
  CHECK(code("128", 1) == ErrorCode::kLimitExceeded);
  CHECK(code("0", 0) == ErrorCode::kLimitExceeded);
  CHECK(BigInt::from_decimal("-128", 1));
}
