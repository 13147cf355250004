#include "espalier/tree/statistics.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/tree/elements.h"

namespace {

using espalier::ByteSpan;
using espalier::DType;
using espalier::ElementType;
using espalier::Histogram;
using espalier::Number;
using espalier::Statistics;
using espalier::Summary;
using Bytes = std::vector<std::byte>;
// Every 64-bit element exactly. On x86, it also has the range that squares of doubles need.
using Real = long double;

struct Expected {
  std::uint64_t finite = 0, zeros = 0, nans = 0, infinities = 0;
  Number min = 0.0, max = 0.0;
  Real mean = 0, deviation = 0;
  std::map<std::pair<double, double>, std::uint64_t> buckets;
};

// The bucket of a number, by way of a float that is not farther from zero.
std::pair<double, double> bucket_of(Real x) {
  if (x == 0) return {0, 0};
  const Real size = std::abs(x);
  const float largest = std::numeric_limits<float>::max();
  float inside = size > Real{largest} ? largest : static_cast<float>(size);
  if (Real{inside} > size) inside = std::nextafter(inside, 0.0f);
  const auto upper_half = espalier::bits_as<std::uint32_t>(inside) >> 16;
  const auto lower = static_cast<double>(espalier::bits_as<float>(upper_half << 16));
  const double upper = upper_half == 0x7f7f
                           ? 0x1p128
                           : static_cast<double>(espalier::bits_as<float>((upper_half + 1) << 16));
  return x > 0 ? std::pair(lower, upper) : std::pair(-upper, 0 - lower);
}

bool is_less(Real a, Real b) { return a < b || (a == b && std::signbit(a) > std::signbit(b)); }

template <class T>
Expected expect(const std::vector<T>& elements) {
  Expected expected;
  std::vector<Real> finite;
  Real sum = 0, squares = 0;
  for (const T& element : elements) {
    const Real x = static_cast<Real>(element);
    if (std::isnan(x)) {
      ++expected.nans;
    } else if (std::isinf(x)) {
      ++expected.infinities;
    } else {
      if (finite.empty() || is_less(x, *std::min_element(finite.begin(), finite.end(), is_less))) {
        expected.min = element;
      }
      if (finite.empty() || is_less(*std::max_element(finite.begin(), finite.end(), is_less), x)) {
        expected.max = element;
      }
      // Only the extremes so far, and so this is not quadratic.
      finite.push_back(x);
      if (finite.size() > 2) {
        std::sort(finite.begin(), finite.end(), is_less);
        finite = {finite.front(), finite.back()};
      }
      ++expected.finite;
      expected.zeros += x == 0 ? 1 : 0;
      ++expected.buckets[bucket_of(x)];
      sum += x;
    }
  }
  if (expected.finite == 0) return expected;
  expected.mean = sum / static_cast<Real>(expected.finite);
  for (const T& element : elements) {
    const Real x = static_cast<Real>(element);
    if (std::isfinite(x)) squares += (x - expected.mean) * (x - expected.mean);
  }
  expected.deviation = std::sqrt(squares / static_cast<Real>(expected.finite));
  return expected;
}

Expected expect(DType dtype, ByteSpan packed) {
  const auto count = espalier::elements_in(packed.size(), espalier::dtype_bits(dtype));
  const auto decoded = [&]<class T>(T) {
    std::vector<T> elements(count);
    espalier::decode_elements<T>(dtype, packed, 0, elements);
    return elements;
  };
  switch (espalier::element_type(dtype)) {
    case ElementType::kInt64:
      return expect(decoded(std::int64_t{}));
    case ElementType::kUint64:
      return expect(decoded(std::uint64_t{}));
    case ElementType::kFloat64:
      return expect(decoded(double{}));
    default: {
      std::vector<double> sizes;
      for (const auto z : decoded(std::complex<double>{})) sizes.push_back(std::abs(z));
      return expect(sizes);
    }
  }
}

bool same(const Number& a, const Number& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  return a == b && (x == nullptr || std::signbit(*x) == std::signbit(*y));
}

bool is_counted(DType dtype) { return espalier::dtype_bits(dtype) <= 16; }

// How far a mean and a deviation may be off.
constexpr Real kPrecision = 1e-12L;

void check(const Summary& summary, const Expected& expected, bool is_exact) {
  CHECK(summary.finite == expected.finite);
  CHECK(summary.zeros == expected.zeros);
  CHECK(summary.nans == expected.nans);
  CHECK(summary.infinities == expected.infinities);
  REQUIRE(summary.min.has_value() == (expected.finite > 0));
  REQUIRE(summary.max.has_value() == (expected.finite > 0));
  if (expected.finite == 0) return;
  CHECK(same(*summary.min, expected.min));
  CHECK(same(*summary.max, expected.max));
  // A mean of numbers that cancel out is as precise as they are; of counted ones, as the reference.
  const Real size = std::abs(expected.mean) + (is_exact ? 1e-6L : 1) * expected.deviation;
  CHECK(std::abs(Real{summary.mean} - expected.mean) <= kPrecision * size);
  // Where parts are merged, the deviation suffers from the rounding of their means.
  const Real rounding = is_exact ? 0 : 2e-17L * std::abs(expected.mean);
  CHECK(std::abs(Real{summary.deviation()} - expected.deviation) <=
        kPrecision * expected.deviation + rounding);
}

void check(const Histogram& histogram, const Expected& expected) {
  std::map<std::pair<double, double>, std::uint64_t> buckets;
  double last = -std::numeric_limits<double>::infinity();
  for (auto [lower, upper, count] : histogram.buckets) {
    CHECK(lower >= last);
    CHECK(!(std::signbit(upper) && upper == 0));
    last = upper;
    // The outermost edges are those of the elements.
    const auto number = [](const Number& x) {
      return std::visit([](auto y) { return static_cast<double>(y); }, x);
    };
    if (lower < -0x1p128) {
      CHECK(lower == number(expected.min));
      lower = -0x1p128;
    }
    if (upper > 0x1p128) {
      CHECK(upper == number(expected.max));
      upper = 0x1p128;
    }
    CHECK(buckets.emplace(std::pair(lower, upper), count).second);
  }
  CHECK(buckets == expected.buckets);
}

bool same(const Summary& a, const Summary& b) {
  return a.finite == b.finite && a.zeros == b.zeros && a.nans == b.nans &&
         a.infinities == b.infinities && a.min.has_value() == b.min.has_value() &&
         (!a.min || (same(*a.min, *b.min) && same(*a.max, *b.max))) && a.mean == b.mean &&
         a.deviation() == b.deviation();
}

bool same(const Histogram& a, const Histogram& b) {
  return std::equal(a.buckets.begin(), a.buckets.end(), b.buckets.begin(), b.buckets.end(),
                    [](const auto& x, const auto& y) {
                      return x.lower == y.lower && x.upper == y.upper && x.count == y.count;
                    });
}

// In pieces of that many groups of elements; a group is whole bytes for every type.
Statistics look(DType dtype, ByteSpan packed, std::size_t groups) {
  Statistics statistics(dtype);
  const std::uint32_t bits = espalier::dtype_bits(dtype);
  const std::size_t piece = groups * (bits == 6 ? 3 : std::max(bits / 8, 1u));
  for (std::size_t at = 0; at < packed.size(); at += piece) {
    statistics.add(packed.subspan(at, std::min(piece, packed.size() - at)));
  }
  return statistics;
}

void check(DType dtype, ByteSpan packed) {
  CAPTURE(espalier::dtype_name(dtype));
  CAPTURE(packed.size());
  const Expected expected = expect(dtype, packed);
  const Statistics whole = look(dtype, packed, packed.size() + 1);
  for (const std::size_t groups :
       {packed.size() + 1, std::size_t{1}, std::size_t{7}, std::size_t{999}, std::size_t{4099}}) {
    CAPTURE(groups);
    if (groups == 1 && packed.size() > 50'000) continue;
    const Statistics statistics = look(dtype, packed, groups);
    check(statistics.summary(), expected, is_counted(dtype));
    check(statistics.histogram(), expected);
    CHECK(same(statistics.histogram(), whole.histogram()));
    if (is_counted(dtype)) CHECK(same(statistics.summary(), whole.summary()));
  }
}

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

std::vector<DType> dtypes() {
  std::vector<DType> all;
  for (std::uint8_t number = 1; number <= espalier::kLastDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype != DType::kOpaque) all.push_back(dtype);
  }
  return all;
}

Bytes random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <class T>
std::vector<T> normal(std::size_t count, double mean, double deviation) {
  std::mt19937 random(1);
  std::normal_distribution<double> numbers(mean, deviation);
  std::vector<T> out(count);
  std::generate(out.begin(), out.end(), [&] { return static_cast<T>(numbers(random)); });
  return out;
}

template <class T>
std::vector<T> special() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers = {Limits::quiet_NaN(), Limits::infinity(), 0, 1, Limits::min()};
  for (const T x : {Limits::max(), Limits::denorm_min(), T(0x1p-126), T(0x1p-133), T(0x1p-149),
                    T(1.5), T(3), T(0x1.fdp10), T(0x1.fffffep127)}) {
    for (const T near : {x, std::nextafter(x, T(0)), std::nextafter(x, Limits::infinity())}) {
      numbers.push_back(near);
    }
  }
  const std::size_t count = numbers.size();
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

}  // namespace

TEST_CASE("statistics of random elements of every type are those of a plain reference") {
  for (const DType dtype : dtypes()) {
    check(dtype, {});
    check(dtype, random_bytes(48, 1));  // one element at least, and whole ones of every type
    check(dtype, random_bytes(3 * 16, 2));
    check(dtype, random_bytes(12'000, 3));
    check(dtype, random_bytes(240'000, 4));
  }
}

TEST_CASE("statistics of single elements") {
  for (const DType dtype : dtypes()) {
    const std::size_t size = std::max(espalier::dtype_bits(dtype) / 8, 1u);
    for (std::uint32_t seed = 0; seed < 20; ++seed) check(dtype, random_bytes(size, seed));
    check(dtype, Bytes(size));
  }
}

TEST_CASE("statistics of every code") {
  std::vector<std::uint16_t> codes(0x10000);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  for (const DType dtype : dtypes()) {
    if (is_counted(dtype)) check(dtype, bytes_of(codes));
  }
}

TEST_CASE("statistics of special numbers") {
  check(DType::kF32, bytes_of(special<float>()));
  check(DType::kF64, bytes_of(special<double>()));
  check(DType::kC64, bytes_of(special<float>()));
  check(DType::kC128, bytes_of(special<double>()));
  for (const float x : special<float>()) check(DType::kF32, bytes_of(std::vector<float>(5, x)));
  for (const double x : special<double>()) check(DType::kF64, bytes_of(std::vector<double>(5, x)));
  check(DType::kF64, bytes_of<double>({1e300, -1e-300, 1e39, 0, -1e39, -0.0, 1e-46, -1e308}));
  check(DType::kF64, bytes_of<double>({-1e300, -1e200}));
}

TEST_CASE("the sign of zero does not depend on the order") {
  for (const auto& entry : {std::pair(DType::kF32, bytes_of<float>({0, -0.0f})),
                            std::pair(DType::kF64, bytes_of<double>({0, -0.0})),
                            std::pair(DType::kBF16, bytes_of<std::uint16_t>({0, 0x8000}))}) {
    // Clang 14 captures no structured bindings.
    const DType dtype = entry.first;
    const Bytes& packed = entry.second;
    CAPTURE(espalier::dtype_name(dtype));
    const std::size_t half = packed.size() / 2;
    for (const bool swapped : {false, true}) {
      Statistics statistics(dtype);
      statistics.add(ByteSpan(packed).subspan(swapped ? half : 0, half));
      statistics.add(ByteSpan(packed).subspan(swapped ? 0 : half, half));
      CHECK(same(*statistics.summary().min, -0.0));
      CHECK(same(*statistics.summary().max, 0.0));
      REQUIRE(statistics.histogram().buckets.size() == 1);
      CHECK(statistics.histogram().buckets[0].count == 2);
    }
  }
}

TEST_CASE("the last buckets end with the outermost numbers beyond floats") {
  const Bytes packed = bytes_of<double>({-1e300, -1e200, -1, 1e39, 1e40, 1e39});
  const Histogram histogram = look(DType::kF64, packed, 100).histogram();
  REQUIRE(histogram.buckets.size() == 3);
  CHECK(histogram.buckets.front().lower == -1e300);
  CHECK(histogram.buckets.front().upper == -0x1.fep127);
  CHECK(histogram.buckets.front().count == 2);
  CHECK(histogram.buckets.back().lower == 0x1.fep127);
  CHECK(histogram.buckets.back().upper == 1e40);
  CHECK(histogram.buckets.back().count == 3);
  // Below 2^128, they end where the next would begin.
  const Bytes largest = bytes_of<double>({-0x1.ffp127, 0x1.fep127});
  for (const auto& bucket : look(DType::kF64, largest, 100).histogram().buckets) {
    CHECK(std::max(-bucket.lower, bucket.upper) == 0x1p128);
  }
}

TEST_CASE("integers that no float and no double holds are in the bucket toward zero") {
  std::vector<std::int64_t> integers = {0, std::numeric_limits<std::int64_t>::min()};
  for (int bit = 0; bit < 63; ++bit) {
    for (const std::int64_t near : {-1, 0, 1}) {
      integers.push_back((std::int64_t{1} << bit) + near);
      integers.push_back(-(std::int64_t{1} << bit) + near);
    }
  }
  integers.push_back(std::numeric_limits<std::int64_t>::max());
  check(DType::kI64, bytes_of(integers));
  check(DType::kU64, bytes_of(integers));
  check(DType::kU64, bytes_of(std::vector<std::uint64_t>(3, ~std::uint64_t{0})));
  check(DType::kI32, bytes_of(integers));
  check(DType::kU32, bytes_of(integers));
}

TEST_CASE("means far from zero, and outliers, leave the deviation as it is") {
  check(DType::kF32, bytes_of(normal<float>(50'000, 0, 0.02)));
  check(DType::kF32, bytes_of(normal<float>(50'000, 1e6, 1)));
  check(DType::kF64, bytes_of(normal<double>(50'000, 0, 1)));
  check(DType::kI32, bytes_of(normal<std::int32_t>(50'000, 2e9, 100)));
  // The first of a block is what distances are taken from.
  std::vector<float> outlier = normal<float>(50'000, 0, 1);
  outlier[0] = 1e6f;
  check(DType::kF32, bytes_of(outlier));
  const Bytes far = bytes_of(normal<double>(50'000, 1e9, 1));
  const Expected expected = expect(DType::kF64, far);
  const Summary summary = look(DType::kF64, far, 1000).summary();
  CHECK(std::abs(Real{summary.deviation()} / expected.deviation - 1) < 1e-9L);
}

TEST_CASE("numbers whose squares no double holds have a mean and a deviation") {
  const double max = std::numeric_limits<double>::max();
  const auto pair = [](double a, double b) {
    // A power of two: the reference rounds, too.
    std::vector<double> numbers(1024, a);
    numbers.insert(numbers.end(), 1024, b);
    return bytes_of(numbers);
  };
  check(DType::kF64, pair(max, -max));
  check(DType::kF64, pair(max, max));
  check(DType::kF64, pair(max, 1));
  check(DType::kF64, pair(1e-300, 3e-300));
  check(DType::kF64, pair(1e-300, 3e300));
  check(DType::kC128, pair(1e307, 7e307));
}

TEST_CASE("parts merged in their order are further pieces") {
  for (const DType dtype : dtypes()) {
    CAPTURE(espalier::dtype_name(dtype));
    Bytes packed = random_bytes(480'000, 5);
    std::fill_n(packed.begin() + 480, 480, std::byte{});
    std::fill_n(packed.end() - 480, 480, std::byte{});
    const ByteSpan first = ByteSpan(packed).first(48'000);
    const ByteSpan second = ByteSpan(packed).subspan(48'000);
    Statistics streamed(dtype);
    streamed.add(first);
    streamed.add(second);
    Statistics a(dtype);
    Statistics b(dtype);
    a.add(first);
    b.add(second);
    Statistics reversed = b;
    reversed.merge(a);
    a.merge(b);
    a.merge(Statistics(dtype));
    CHECK(same(a.summary(), streamed.summary()));
    CHECK(same(a.histogram(), streamed.histogram()));
    CHECK(same(reversed.histogram(), streamed.histogram()));
    if (is_counted(dtype)) CHECK(same(reversed.summary(), streamed.summary()));
    check(reversed.summary(), expect(dtype, packed), is_counted(dtype));
    Statistics empty(dtype);
    empty.merge(a);
    CHECK(same(empty.summary(), streamed.summary()));
    CHECK(same(empty.histogram(), streamed.histogram()));
  }
}

TEST_CASE("nothing is left after clear()") {
  for (const DType dtype : dtypes()) {
    CAPTURE(espalier::dtype_name(dtype));
    // Few elements and many are forgotten in different ways.
    for (const std::size_t size : {48u, 48'000u}) {
      const Bytes packed = random_bytes(240, 7);
      Statistics statistics(dtype);
      statistics.add(random_bytes(size, 6));
      statistics.add(Bytes(48));
      statistics.clear();
      CHECK(statistics.summary().finite == 0);
      CHECK(statistics.histogram().buckets.empty());
      statistics.add(packed);
      CHECK(same(statistics.summary(), look(dtype, packed, 1000).summary()));
      CHECK(same(statistics.histogram(), look(dtype, packed, 1000).histogram()));
    }
  }
}

TEST_CASE("runs of one number, and counts beyond what is counted at once") {
  for (const auto& entry : {std::pair(DType::kI8, 1u), std::pair(DType::kBF16, 2u),
                            std::pair(DType::kF32, 4u), std::pair(DType::kF6E2M3FN, 1u)}) {
    const DType dtype = entry.first;
    const std::size_t size = entry.second;
    CAPTURE(espalier::dtype_name(dtype));
    Bytes packed = random_bytes(std::size_t{3} << 19, 8);
    std::fill(packed.begin() + 1000, packed.end() - 100'000, std::byte{0x41});
    // Words that are equal in one half only.
    for (std::size_t i = 5000; i < 20'000; i += 11) packed[i] = std::byte{0x42};
    const Expected once = expect(dtype, packed);
    const std::uint64_t times = (std::uint64_t{36} << 20) * size / packed.size();
    Statistics statistics(dtype);
    for (std::uint64_t i = 0; i < times; ++i) statistics.add(packed);
    Expected expected = once;
    for (std::uint64_t* count :
         {&expected.finite, &expected.zeros, &expected.nans, &expected.infinities}) {
      *count *= times;
    }
    for (auto& bucket : expected.buckets) bucket.second *= times;
    check(statistics.summary(), expected, is_counted(dtype));
    check(statistics.histogram(), expected);
  }
}

TEST_CASE("an incomplete element at the end is ignored") {
  for (const DType dtype : dtypes()) {
    const std::size_t size = espalier::dtype_bits(dtype) / 8;
    if (size < 2) continue;
    const Bytes packed = random_bytes(48 + size - 1, 9);
    CAPTURE(espalier::dtype_name(dtype));
    const Statistics statistics = look(dtype, packed, packed.size());
    CHECK(same(statistics.summary(), look(dtype, ByteSpan(packed).first(48), 48).summary()));
    CHECK(same(statistics.histogram(), look(dtype, ByteSpan(packed).first(48), 48).histogram()));
  }
  check(DType::kF6E3M2FN, random_bytes(1, 10));
  check(DType::kF6E3M2FN, random_bytes(2, 11));
}

TEST_CASE("opaque elements have no statistics, and other types do not mix") {
  const Bytes packed = random_bytes(48, 12);
  Statistics opaque(DType::kOpaque);
  opaque.add(packed);
  CHECK(opaque.summary().finite == 0);
  CHECK(opaque.histogram().buckets.empty());
  Statistics bytes(DType::kU8);
  bytes.add(packed);
  // Both have codes of eight bits.
  Statistics floats(DType::kF8E5M2);
  floats.merge(bytes);
  CHECK(floats.summary().finite == 0);
}
