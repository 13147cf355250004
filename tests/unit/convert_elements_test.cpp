// Conversions between types of elements, compared with the processor's own single roundings.
#include "espalier/tree/convert_elements.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/tree/elements.h"

namespace {

using namespace espalier;
using testing::check_error;

template <class To, class From>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  const auto ok = convert_elements(dtype_of<From>, std::as_bytes(std::span(from)), dtype_of<To>,
                                   std::as_writable_bytes(std::span(to)));
  REQUIRE_MESSAGE(ok, (ok ? "" : ok.error().describe()));
  return to;
}

template <class To, class From>
Error refused(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  const auto ok = convert_elements(dtype_of<From>, std::as_bytes(std::span(from)), dtype_of<To>,
                                   std::as_writable_bytes(std::span(to)), 100);
  REQUIRE_FALSE(ok);
  return ok.error();
}

// Of every size, and near the middle between two floats, where a second rounding would show.
std::vector<std::int64_t> integers() {
  testing::Random random(11);
  std::vector<std::int64_t> all = {0, 1, -1, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()};
  for (int shift = 0; shift < 39; ++shift) {
    for (int i = 0; i < 200; ++i) {
      const auto middle = static_cast<std::int64_t>((random.below(1u << 24) | 1u << 24) * 2 + 1);
      const auto near = static_cast<std::int64_t>(random.below(3)) - 1;
      const std::int64_t value = (middle << shift) + near;
      all.push_back(i % 2 == 0 ? value : -value);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("convert: integers become floats with one rounding") {
  const auto from = integers();
  const auto floats = converted<float>(from);
  const auto doubles = converted<double>(from);
  for (std::size_t i = 0; i < from.size(); ++i) {
    CAPTURE(from[i]);
    CHECK(floats[i] == static_cast<float>(from[i]));
    CHECK(doubles[i] == static_cast<double>(from[i]));
  }
  std::vector<std::uint64_t> unsigned_ones(from.begin(), from.end());
  const auto of_unsigned = converted<float>(unsigned_ones);
  for (std::size_t i = 0; i < from.size(); ++i) {
    CHECK(of_unsigned[i] == static_cast<float>(unsigned_ones[i]));
  }
}

TEST_CASE("convert: doubles become floats, and floats doubles") {
  const std::vector<double> from = {
      0.1, -0.0, 1e300, -1e300, 1e-46, 3e-46, std::numeric_limits<double>::quiet_NaN()};
  const auto floats = converted<float>(from);
  for (std::size_t i = 0; i + 1 < from.size(); ++i) {
    CHECK(floats[i] == static_cast<float>(from[i]));
    CHECK(std::signbit(floats[i]) == std::signbit(from[i]));
  }
  CHECK(std::isnan(floats.back()));
  CHECK(converted<double>(std::vector<float>{0.1f, -3}) == std::vector<double>{0.1f, -3});
}

TEST_CASE("convert: integers are of their own type, or refused by number") {
  CHECK(converted<std::int8_t>(std::vector<std::int64_t>{-128, 127}) ==
        std::vector<std::int8_t>{-128, 127});
  CHECK(converted<std::uint64_t>(std::vector<float>{0, 0x1p63f}) ==
        std::vector<std::uint64_t>{0, std::uint64_t{1} << 63});
  CHECK(converted<std::int64_t>(std::vector<double>{-0x1p63, 5}) ==
        std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), 5});
  const auto code = ErrorCode::kInvalidArgument;
  check_error(Result<void>(tl::unexpected(refused<std::int8_t>(std::vector<int>{1, 128}))), code,
              "", "element 101 is 128");
  check_error(Result<void>(tl::unexpected(refused<std::uint8_t>(std::vector<int>{-1}))), code, "",
              "element 100 is -1");
  for (const double bad : {0.5, 0x1p63, -0x1p64, std::nan(""), HUGE_VAL}) {
    CHECK(refused<std::int64_t>(std::vector<double>{bad}).code == code);
  }
  CHECK(refused<std::uint64_t>(std::vector<double>{-1}).code == code);
  CHECK(refused<std::complex<float>>(std::vector<float>{1}).code == code);
  CHECK(refused<float>(std::vector<std::complex<float>>{1}).code == code);
}

TEST_CASE("convert: more elements than fit in one block, of types narrower than a byte") {
  std::vector<std::byte> packed(3000);
  testing::Random random(3);
  for (std::byte& byte : packed) byte = static_cast<std::byte>(random.below(256));
  for (const DType dtype : {DType::kI4, DType::kU2, DType::kF6E2M3FN, DType::kF8E5M2}) {
    const std::size_t count = packed.size() * 8 / dtype_bits(dtype);
    std::vector<double> out(count);
    REQUIRE(convert_elements(dtype, packed, DType::kF64, std::as_writable_bytes(std::span(out))));
    for (std::size_t i = 0; i < count; i += 97) {
      double expected = 0;
      if (element_type(dtype) == ElementType::kInt64) {
        std::int64_t integer = 0;
        decode_elements<std::int64_t>(dtype, packed, i, std::span(&integer, 1));
        expected = static_cast<double>(integer);
      } else {
        decode_elements<double>(dtype, packed, i, std::span(&expected, 1));
      }
      CHECK((out[i] == expected || (std::isnan(out[i]) && std::isnan(expected))));
    }
    out.pop_back();
    CHECK_FALSE(
        convert_elements(dtype, packed, DType::kF64, std::as_writable_bytes(std::span(out))));
  }
}
