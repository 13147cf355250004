#include "espalier/tree/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <span>

#include "espalier/tree/elements.h"

namespace espalier {
namespace {

// Adds `term(x)` for all x in several lanes: less rounding than one long sum, and faster, because
// the lanes do not wait for each other.
template <class Term>
double sum(std::span<const double> numbers, Term term) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= numbers.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += term(numbers[i + lane]);
  }
  for (; i < numbers.size(); ++i) lanes[0] += term(numbers[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// The power of two by which numbers are divided before they are added and squared; 0 where sums of
// 2^60 squares are far from overflow, and squares from underflow.
int scale_for(std::span<const double> numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  if (largest == 0) return Summary::kNoScale;
  const int exponent = std::ilogb(largest);
  return exponent > 400 || exponent < -400 ? exponent : 0;
}

// A mean is not beyond what it is the mean of, nor is a deviation, but by rounding.
double unscaled(double value, int scale) {
  constexpr double kMax = std::numeric_limits<double>::max();
  return std::clamp(std::ldexp(value, scale), -kMax, kMax);
}

// Mean and squares of finite numbers, in passes of their own: a running sum of squares would lose
// everything where the mean is far from zero. Scales the numbers.
void add_moments(std::span<double> numbers, Summary& summary) {
  if (numbers.empty()) return;
  summary.scale = scale_for(numbers);
  if (summary.scale != 0) {
    for (double& x : numbers) x = std::ldexp(x, -summary.scale);
  }
  const auto count = static_cast<double>(numbers.size());
  const double rough = sum(numbers, [](double x) { return x; }) / count;
  const double mean = rough + sum(numbers, [&](double x) { return x - rough; }) / count;
  summary.mean = unscaled(mean, summary.scale);
  summary.squares = sum(numbers, [&](double x) { return (x - mean) * (x - mean); });
}

template <class T>
void add_extremes(const std::vector<T>& numbers, Summary& summary) {
  if (numbers.empty()) return;
  const auto [min, max] = std::minmax_element(numbers.begin(), numbers.end());
  summary.min = *min;
  summary.max = *max;
}

// Counts zeros, NaNs and infinities, and takes the last two out.
void keep_finite(std::vector<double>& numbers, Summary& summary) {
  std::size_t kept = 0;
  for (const double x : numbers) {
    if (std::isnan(x)) {
      ++summary.nans;
    } else if (std::isinf(x)) {
      ++summary.infinities;
    } else {
      summary.zeros += x == 0 ? 1 : 0;
      numbers[kept++] = x;
    }
  }
  numbers.resize(kept);
}

template <class T>
Summary summarize_integers(DType dtype, ByteSpan packed, std::vector<T>& integers,
                           std::vector<double>& reals) {
  Summary summary;
  integers.resize(static_cast<std::size_t>(elements_in(packed.size(), dtype_bits(dtype))));
  decode_elements<T>(dtype, packed, 0, integers);
  reals.assign(integers.begin(), integers.end());
  keep_finite(reals, summary);
  add_extremes(integers, summary);
  add_moments(reals, summary);
  summary.finite = reals.size();
  return summary;
}

void decode_reals(DType dtype, ByteSpan packed, std::vector<double>& reals) {
  const auto count = static_cast<std::size_t>(elements_in(packed.size(), dtype_bits(dtype)));
  reals.resize(count);
  if (element_type(dtype) == ElementType::kFloat64) {
    decode_elements<double>(dtype, packed, 0, reals);
    return;
  }
  std::vector<std::complex<double>> numbers(count);
  decode_elements<std::complex<double>>(dtype, packed, 0, numbers);
  std::transform(numbers.begin(), numbers.end(), reals.begin(),
                 [](std::complex<double> z) { return std::abs(z); });
}

}  // namespace

double Summary::deviation() const {
  return finite == 0 ? 0 : unscaled(std::sqrt(squares / static_cast<double>(finite)), scale);
}

void Summary::merge(const Summary& other) {
  zeros += other.zeros;
  nans += other.nans;
  infinities += other.infinities;
  if (other.finite == 0) return;
  if (finite == 0) {
    min = other.min;
    max = other.max;
    mean = other.mean;
    squares = other.squares;
    scale = other.scale;
    finite = other.finite;
    return;
  }
  min = std::min(*min, *other.min);
  max = std::max(*max, *other.max);
  // Chan, Golub, LeVeque: updating formulae for computing sample variances.
  const auto own = static_cast<double>(finite);
  const auto added = static_cast<double>(other.finite);
  const int common = std::max(scale, other.scale);
  const double scaled = std::ldexp(mean, -common);
  const double distance = std::ldexp(other.mean, -common) - scaled;
  mean = unscaled(scaled + distance * (added / (own + added)), common);
  squares = std::ldexp(squares, 2 * (scale - common)) +
            (std::ldexp(other.squares, 2 * (other.scale - common)) +
             distance * distance * (own * added / (own + added)));
  scale = common;
  finite += other.finite;
}

Summary summarize(DType dtype, ByteSpan packed, SummaryBuffer& buffer) {
  switch (element_type(dtype)) {
    case ElementType::kInt64:
      return summarize_integers(dtype, packed, buffer.signed_integers, buffer.reals);
    case ElementType::kUint64:
      return summarize_integers(dtype, packed, buffer.unsigned_integers, buffer.reals);
    case ElementType::kNone:
      return {};
    default:
      break;
  }
  Summary summary;
  decode_reals(dtype, packed, buffer.reals);
  keep_finite(buffer.reals, summary);
  add_extremes(buffer.reals, summary);
  add_moments(buffer.reals, summary);
  summary.finite = buffer.reals.size();
  return summary;
}

}  // namespace espalier
