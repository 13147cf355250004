#include "espalier/tree/encode_elements.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/tree/elements.h"

namespace espalier {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::uint32_t code_of(DType dtype, double value, std::uint64_t* overflows = nullptr) {
  std::vector<std::byte> out(dtype_bits(dtype) / 8);
  const auto count = encode_elements(dtype, std::span(&value, 1), out);
  if (overflows != nullptr) *overflows = count;
  return out.size() == 2 ? load_le<std::uint16_t>(out.data()) : load_le<std::uint32_t>(out.data());
}

// All finite values of a 16-bit type from 0 up, by code, and then the power of two at which the
// rounding becomes infinite: the ends and middles of all intervals that rounding distinguishes.
std::vector<double> ladder(DType dtype, std::uint16_t infinity) {
  std::vector<std::byte> codes(2 * std::size_t{infinity});
  for (std::size_t i = 0; i < infinity; ++i) {
    store_le(codes.data() + 2 * i, static_cast<std::uint16_t>(i));
  }
  std::vector<double> values(infinity);
  decode_elements<double>(dtype, codes, 0, values);
  const double last = values.back();
  values.push_back(last + (last - values[values.size() - 2]));
  return values;
}

TEST_CASE(
    "encode_elements: every interval of f16 and bf16 rounds to the nearer end, ties to even") {
  for (const auto& [dtype, infinity] :
       {std::pair(DType::kF16, std::uint16_t{0x7C00}), {DType::kBF16, std::uint16_t{0x7F80}}}) {
    const auto values = ladder(dtype, infinity);
    std::size_t wrong = 0;
    for (std::uint32_t low = 0; low < infinity; ++low) {
      // Exact: both ends have few bits.
      const double middle = values[low] + (values[low + 1] - values[low]) / 2;
      const double below = std::nextafter(middle, 0.0);
      const double above = std::nextafter(middle, kInfinity);
      const std::uint32_t even = low % 2 == 0 ? low : low + 1;
      for (const auto& [value, code] :
           {std::pair(values[low], low), {below, low}, {middle, even}, {above, low + 1}}) {
        if (code_of(dtype, value) != code) ++wrong;
        if (code_of(dtype, -value) != (code | 0x8000u)) ++wrong;
        std::uint64_t overflows = 0;
        code_of(dtype, value, &overflows);
        if ((overflows == 1) != (code == infinity)) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("encode_elements: f32 is what the processor rounds to") {
  testing::Random random(7);
  std::size_t wrong = 0;
  for (int i = 0; i < 200'000; ++i) {
    // Exponents around f32's range, and mantissas at and beside ties.
    std::uint64_t bits = random.bits();
    const std::uint64_t exponent = 1023 - 160 + random.below(320);
    bits = (bits >> 63 << 63) | exponent << 52 | (bits & 0xFFFFFFFFFFFFF);
    if (i % 3 == 0) bits = (bits & ~std::uint64_t{0x1FFFFFFF}) | 0x10000000;
    if (i % 3 == 1) bits = (bits & ~std::uint64_t{0x1FFFFFFF}) | 0x10000001;
    const auto value = std::bit_cast<double>(bits);
    if (code_of(DType::kF32, value) != std::bit_cast<std::uint32_t>(static_cast<float>(value))) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("encode_elements: there is no rounding on the way from f64") {
  // A little above a tie of bf16; rounding to f32 first would make it a tie.
  CHECK(code_of(DType::kBF16, 1.0 + 0x1p-8 + 0x1p-40) == 0x3F81);
  CHECK(code_of(DType::kBF16, 1.0 + 0x1p-8) == 0x3F80);
}

TEST_CASE("encode_elements: zeros, infinities and NaNs") {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    std::uint64_t overflows = 1;
    CHECK(code_of(dtype, 0.0, &overflows) == 0);
    CHECK(overflows == 0);
    CHECK(code_of(dtype, std::numeric_limits<double>::denorm_min()) == 0);
    std::vector<std::byte> packed(dtype_bits(dtype) / 8);
    std::vector<double> back(1);
    for (const double special : {-0.0, kInfinity, -kInfinity}) {
      CHECK(encode_elements(dtype, std::span(&special, 1), packed) == 0);
      decode_elements<double>(dtype, packed, 0, back);
      CHECK(std::memcmp(back.data(), &special, sizeof special) == 0);
    }
  }
  // A payload of low bits only must not become an infinity.
  CHECK(code_of(DType::kF16, std::bit_cast<double>(std::uint64_t{0x7FF0000000000001})) == 0x7E00);
  CHECK(code_of(DType::kBF16, std::bit_cast<double>(std::uint64_t{0xFFF8000000000000})) == 0xFFC0);
  CHECK(code_of(DType::kF32, std::bit_cast<double>(std::uint64_t{0x7FF4000000000000})) ==
        0x7FE00000);
}

TEST_CASE("encode_elements: wrong sizes and dtypes do nothing") {
  const std::vector<double> values(2, 1e300);
  std::vector<std::byte> out(8);
  CHECK(encode_elements(DType::kF16, values, out) == 0);
  CHECK(encode_elements(DType::kF64, values, out) == 0);
  CHECK(encode_elements(DType::kF32, values, std::span(out).first(7)) == 0);
  CHECK(out == std::vector<std::byte>(8));
  CHECK(encode_elements(DType::kF32, values, out) == 2);
}

}  // namespace
}  // namespace espalier
