// Which numbers `diff` takes for equal.
#ifndef ESPALIER_CLI_DIFF_TOLERANCE_H_
#define ESPALIER_CLI_DIFF_TOLERANCE_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "espalier/tree/statistics.h"

namespace espalier::cli {

/// numpy.allclose's rule: a is close to b if |a - b| <= atol + rtol * |b|. Two NaNs are equal, and
/// an infinity equals itself alone. All arithmetic is in f64.
struct Tolerance {
  double rtol = 0;
  double atol = 0;

  bool is_zero() const { return rtol == 0 && atol == 0; }
  /// Whether numbers at this distance are close, where |b| is `magnitude`.
  bool covers(const Number& distance, double magnitude) const {
    return to_double(distance) <= atol + rtol * magnitude;
  }
};

inline bool is_nan(double x) { return std::isnan(x); }
inline bool is_nan(std::complex<double> z) { return std::isnan(z.real()) || std::isnan(z.imag()); }
template <class Integer>
bool is_nan(Integer) {
  return false;
}

inline bool is_finite(double x) { return std::isfinite(x); }
inline bool is_finite(std::complex<double> z) { return is_finite(z.real()) && is_finite(z.imag()); }

/// The distance between two numbers: exact for integers; nothing if one of the two is not finite;
/// infinite if the distance of two finite numbers exceeds the largest double.
template <class T>
std::optional<Number> distance(T a, T b) {
  // The distance of any two integers fits in unsigned arithmetic.
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  return Number(a > b ? x - y : y - x);
}
template <>
inline std::optional<Number> distance(double a, double b) {
  if (!is_finite(a) || !is_finite(b)) return std::nullopt;
  return Number(std::abs(a - b));
}
template <>
inline std::optional<Number> distance(std::complex<double> a, std::complex<double> b) {
  if (!is_finite(a) || !is_finite(b)) return std::nullopt;
  return Number(std::abs(a - b));
}

inline double magnitude(std::complex<double> z) { return std::abs(z); }
template <class Real>
requires std::is_arithmetic_v<Real>
double magnitude(Real x) { return std::abs(static_cast<double>(x)); }

/// Whether two numbers count as equal.
template <class T>
bool is_close(T a, T b, const Tolerance& tolerance) {
  if (a == b || (is_nan(a) && is_nan(b))) return true;
  const auto apart = distance(a, b);
  return apart && tolerance.covers(*apart, magnitude(b));
}

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DIFF_TOLERANCE_H_
