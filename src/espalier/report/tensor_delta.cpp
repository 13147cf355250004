#include "espalier/report/tensor_delta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <span>

#include "espalier/tree/elements.h"

namespace espalier {
namespace {

// Elements per block: two blocks fit on a small stack.
constexpr std::size_t kBlock = 1024;

// Products beyond these are scaled, each of its two numbers by 2^600. So 2^60 products of a kind
// are far from overflow, and the product of any two doubles but 0 is far from underflow.
constexpr double kLarge = 0x1p900;
constexpr double kSmall = 0x1p-900;
constexpr double kShrink = 0x1p-600;
constexpr double kGrow = 0x1p600;
constexpr int kExponent = 1200;

// A sum of products of numbers without extremes: integers, and floats of at most 32 bits.
class PlainSum {
 public:
  void add(double x, double y) { sum_ += x * y; }
  void add_to(ProductSum& total) const { total.add_sum(sum_); }

 private:
  double sum_ = 0;
};

class WideSum {
 public:
  void add(double x, double y) { sum_.add(x, y); }
  void add_to(ProductSum& total) const { total.merge(sum_); }

 private:
  ProductSum sum_;
};

template <class Sum>
struct Sums {
  Sum delta;
  Sum before;
  Sum after;
  Sum both;

  // Adds a pair of finite numbers, and their difference.
  void add(double x, double y, double difference) {
    before.add(x, x);
    after.add(y, y);
    both.add(x, y);
    delta.add(difference, difference);
  }
};

// -- What differs by type

template <class Integer>
bool are_finite(Integer, Integer) {
  return true;
}
template <>
bool are_finite(double x, double y) {
  // An infinity or a NaN minus itself is NaN.
  return x - x + (y - y) == 0;
}
bool are_finite(std::complex<double> x, std::complex<double> y) {
  return are_finite(x.real(), y.real()) && are_finite(x.imag(), y.imag());
}

// Whether two numbers that are not both finite are equal.
template <class Integer>
bool are_equal(Integer, Integer) {
  return true;
}
template <>
bool are_equal(double x, double y) {
  return x == y || (std::isnan(x) && std::isnan(y));
}
bool is_nan(std::complex<double> z) { return std::isnan(z.real()) || std::isnan(z.imag()); }
bool are_equal(std::complex<double> x, std::complex<double> y) {
  return x == y || (is_nan(x) && is_nan(y));
}

// Adds two finite numbers, and returns their distance.
template <class Sum, class Integer>
std::uint64_t add_pair(Sums<Sum>& sums, Integer x, Integer y) {
  // The distance of any two integers fits in unsigned arithmetic, but may round as a double.
  const auto a = static_cast<std::uint64_t>(x);
  const auto b = static_cast<std::uint64_t>(y);
  const std::uint64_t distance = x > y ? a - b : b - a;
  sums.add(static_cast<double>(x), static_cast<double>(y), static_cast<double>(distance));
  return distance;
}
template <class Sum>
double add_reals(Sums<Sum>& sums, double x, double y) {
  const double difference = x - y;
  if (std::isinf(difference)) {
    // Two large numbers of opposite signs: halves have a distance. (2h)^2 = 4 h^2.
    const double half = x / 2 - y / 2;
    sums.add(x, y, half);
    for (int i = 0; i < 3; ++i) sums.delta.add(half, half);
  } else {
    sums.add(x, y, difference);
  }
  return std::abs(difference);
}
template <class Sum>
double add_pair(Sums<Sum>& sums, double x, double y) {
  return add_reals(sums, x, y);
}
template <class Sum>
double add_pair(Sums<Sum>& sums, std::complex<double> x, std::complex<double> y) {
  return std::hypot(add_reals(sums, x.real(), y.real()), add_reals(sums, x.imag(), y.imag()));
}

}  // namespace

// -- Sums

void ProductSum::add(double x, double y) {
  const double product = x * y;
  const double size = std::abs(product);
  if (size > kLarge) {
    large_ += (x * kShrink) * (y * kShrink);
  } else if (size < kSmall) {
    small_ += (x * kGrow) * (y * kGrow);
  } else {
    medium_ += product;
  }
}

void ProductSum::merge(const ProductSum& other) {
  large_ += other.large_;
  medium_ += other.medium_;
  small_ += other.small_;
}

ProductSum::Scaled ProductSum::total() const {
  if (large_ != 0) return {large_ + std::ldexp(medium_, -kExponent), kExponent};
  if (medium_ != 0) return {medium_ + std::ldexp(small_, -kExponent), 0};
  return {small_, -kExponent};
}

double ProductSum::root() const {
  const auto [value, exponent] = total();
  return std::ldexp(std::sqrt(value), exponent / 2);
}

Number larger_distance(const Number& a, const Number& b) {
  if (a.index() == b.index()) return std::max(a, b);
  return to_double(a) < to_double(b) ? b : a;
}

// -- Tensors

template <class Sum, class T>
void TensorDelta::add_elements(DType dtype, ByteSpan before, ByteSpan after, std::uint64_t count) {
  std::array<T, kBlock> left;
  std::array<T, kBlock> right;
  Sums<Sum> sums;
  decltype(add_pair(sums, T(), T())) max = 0;
  for (std::uint64_t first = 0; first < count; first += kBlock) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, count - first));
    decode_elements<T>(dtype, before, first, std::span(left).first(size));
    decode_elements<T>(dtype, after, first, std::span(right).first(size));
    for (std::size_t i = 0; i < size; ++i) {
      const T x = left[i];
      const T y = right[i];
      if (are_finite(x, y)) {
        max = std::max(max, add_pair(sums, x, y));
        if (x != y) ++changed_;
      } else if (!are_equal(x, y)) {
        ++changed_;
        ++not_comparable_;
      }
    }
  }
  elements_ += count;
  if (max != 0) max_delta_ = larger_distance(max_delta_, max);
  sums.delta.add_to(delta_);
  sums.before.add_to(before_);
  sums.after.add_to(after_);
  sums.both.add_to(both_);
}

void TensorDelta::add(DType dtype, ByteSpan before, ByteSpan after, std::uint64_t count) {
  switch (element_type(dtype)) {
    case ElementType::kInt64:
      return add_elements<PlainSum, std::int64_t>(dtype, before, after, count);
    case ElementType::kUint64:
      return add_elements<PlainSum, std::uint64_t>(dtype, before, after, count);
    case ElementType::kFloat64:
      return dtype == DType::kF64 ? add_elements<WideSum, double>(dtype, before, after, count)
                                  : add_elements<PlainSum, double>(dtype, before, after, count);
    case ElementType::kComplex128:
      return add_elements<WideSum, std::complex<double>>(dtype, before, after, count);
    case ElementType::kNone:
      return;
  }
}

void TensorDelta::merge(const TensorDelta& other) {
  elements_ += other.elements_;
  changed_ += other.changed_;
  not_comparable_ += other.not_comparable_;
  max_delta_ = larger_distance(max_delta_, other.max_delta_);
  delta_.merge(other.delta_);
  before_.merge(other.before_);
  after_.merge(other.after_);
  both_.merge(other.both_);
}

double TensorDelta::relative() const {
  const auto delta = delta_.total();
  const auto before = before_.total();
  if (delta.value == 0) return 0;
  if (before.value == 0) return std::numeric_limits<double>::infinity();
  return std::ldexp(std::sqrt(delta.value) / std::sqrt(before.value),
                    (delta.exponent - before.exponent) / 2);
}

std::optional<double> TensorDelta::cosine() const {
  const auto before = before_.total();
  const auto after = after_.total();
  const auto both = both_.total();
  if (before.value == 0 || after.value == 0) return std::nullopt;
  const double cosine = std::ldexp(both.value / (std::sqrt(before.value) * std::sqrt(after.value)),
                                   both.exponent - (before.exponent + after.exponent) / 2);
  // Only rounding can put it outside.
  return std::clamp(cosine, -1.0, 1.0);
}

}  // namespace espalier
