#include "espalier/health/spectrum.h"

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

// SplitMix64: https://prng.di.unimi.it/splitmix64.c
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

// The eigenvalues of a symmetric matrix, by Jacobi's cyclic method: Golub and Van Loan, Matrix
// Computations, section 8.5.
template <std::size_t N>
std::array<double, N> eigenvalues(std::array<std::array<double, N>, N> a) {
  constexpr int kMostSweeps = 30;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double beside = 0;
    double on = 0;
    for (std::size_t i = 0; i < N; ++i) {
      on += a[i][i] * a[i][i];
      for (std::size_t j = 0; j < i; ++j) beside += a[i][j] * a[i][j];
    }
    if (beside <= 1e-30 * on) break;
    for (std::size_t p = 0; p < N; ++p) {
      for (std::size_t q = p + 1; q < N; ++q) {
        if (a[p][q] == 0) continue;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::hypot(theta, 1));
        const double c = 1 / std::hypot(t, 1);
        const double s = t * c;
        for (std::size_t k = 0; k < N; ++k) {
          const double x = a[k][p];
          const double y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (std::size_t k = 0; k < N; ++k) {
          const double x = a[p][k];
          const double y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
      }
    }
  }
  std::array<double, N> values;
  for (std::size_t i = 0; i < N; ++i) values[i] = a[i][i];
  return values;
}

}  // namespace

Spectrum::Spectrum(std::uint64_t rows, std::uint64_t columns)
    : columns_(columns), every_((rows + kMostRows - 1) / kMostRows) {
  // Each sum has as many columns, in an order that no layout of heads or groups shares.
  const auto count = static_cast<std::size_t>(columns);
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(mixed(i) % i)]);
  }
  sum_of_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_minus = (mixed(~std::uint64_t{i}) & 1) != 0;
    sum_of_[order[i]] = static_cast<std::uint8_t>(i % kSums + (is_minus ? kSums : 0));
  }
}

void Spectrum::add(std::span<const float> elements) {
  while (!elements.empty()) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(columns_ - column_, elements.size()));
    if (row_ % every_ == 0) {
      const std::uint8_t* const sum_of = sum_of_.data() + static_cast<std::size_t>(column_);
      for (std::size_t i = 0; i < count; ++i) sums_[sum_of[i]] += double{elements[i]};
    }
    elements = elements.subspan(count);
    column_ += count;
    if (column_ < columns_) return;
    if (row_ % every_ == 0) end_row();
    column_ = 0;
    ++row_;
  }
}

void Spectrum::end_row() {
  std::array<double, kSums> row;
  for (std::size_t i = 0; i < kSums; ++i) row[i] = sums_[i] - sums_[kSums + i];
  for (std::size_t i = 0; i < kSums; ++i) {
    for (std::size_t j = 0; j < kSums; ++j) gram_[i][j] += row[i] * row[j];
  }
  sums_ = {};
}

std::optional<double> Spectrum::weaker_half() const {
  std::array<double, kSums> values = eigenvalues(gram_);
  std::sort(values.begin(), values.end());
  double weak = 0;
  double all = 0;
  for (std::size_t i = 0; i < kSums; ++i) {
    all += values[i];
    if (i < kSums / 2) weak += values[i];
  }
  if (!std::isfinite(all) || !(all > 0)) return std::nullopt;
  constexpr double kLeast = 1e-12;
  return std::log10(std::max(kLeast, weak / all));
}

}  // namespace espalier
