#include "espalier/report/channels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

namespace espalier {
namespace {

// A shorter last axis is that of a filter.
constexpr std::uint64_t kLongestFilter = 15;
// Of rows or columns, those that may be outliers: if more are large, that is how the matrix is. Of
// a hundred one; of few columns up to four, but not of few rows, which are filters of small models.
constexpr std::uint64_t kShare = 100;
constexpr std::uint64_t kFewColumns = 4;
constexpr std::uint64_t kLargestShare = 10;
// Outliers are this far from all others: without it, the end of any long tail would be one.
constexpr double kGap = 3;

constexpr std::size_t kLanes = 4;
using Quad = float __attribute__((vector_size(16)));

Quad load(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}
// Below it, squares lose bits: norms tell only what is zero.
constexpr double kLeastNorm = 0x1p-50;

// Squares of small numbers may vanish, so that a norm is at least the greatest element. Those of
// large ones may overflow, and so does the norm.
float norm_of(float squares, float greatest) { return std::max(std::sqrt(squares), greatest); }
void store(float* to, const Quad& quad) { std::memcpy(to, &quad, sizeof quad); }
Quad larger(const Quad& a, const Quad& b) { return a > b ? a : b; }
Quad size_of(const Quad& a) { return larger(a, -a); }

}  // namespace

MatrixView matrix_view(std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> axes;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(axes),
               [](std::uint64_t axis) { return axis != 1; });
  MatrixView view{1, 1, axes.size()};
  if (axes.empty()) return view;
  const bool is_filter = axes.size() > 2 && axes.back() <= kLongestFilter;
  const std::size_t row_axes = is_filter ? 1 : axes.size() - 1;
  for (std::size_t i = 0; i < axes.size(); ++i)
    (i < row_axes ? view.rows : view.columns) *= axes[i];
  return view;
}

ChannelMeter::ChannelMeter(const MatrixView& view) {
  if (!view.is_matrix() || view.rows > kMostChannels || view.columns > kMostChannels - view.rows) {
    return;
  }
  columns_ = static_cast<std::size_t>(view.columns);
  row_norms_.reserve(static_cast<std::size_t>(view.rows));
  column_squares_.resize(columns_);
  column_max_.resize(columns_);
}

void ChannelMeter::add(std::span<const float> elements) {
  while (is_on() && !elements.empty()) {
    const std::size_t count = std::min(elements.size(), columns_ - column_);
    const float* const from = elements.data();
    float* const squares = column_squares_.data() + column_;
    float* const greatest = column_max_.data() + column_;
    Quad row_squares{};
    Quad row_max{};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const Quad size = size_of(load(from + i));
      const Quad square = size * size;
      row_squares += square;
      row_max = larger(size, row_max);
      store(squares + i, load(squares + i) + square);
      store(greatest + i, larger(size, load(greatest + i)));
    }
    for (; i < count; ++i) {
      const float size = std::abs(from[i]);
      row_squares_ += size * size;
      row_max_ = std::max(row_max_, size);
      squares[i] += size * size;
      greatest[i] = std::max(greatest[i], size);
    }
    row_squares_ += (row_squares[0] + row_squares[1]) + (row_squares[2] + row_squares[3]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) row_max_ = std::max(row_max_, row_max[lane]);
    elements = elements.subspan(count);
    column_ += count;
    if (column_ < columns_) break;
    row_norms_.push_back(norm_of(row_squares_, row_max_));
    row_squares_ = row_max_ = 0;
    column_ = 0;
  }
}

Channels ChannelMeter::columns() const {
  std::vector<float> norms(columns_);
  for (std::size_t i = 0; i < columns_; ++i) {
    norms[i] = norm_of(column_squares_[i], column_max_[i]);
  }
  return summarize(std::move(norms), kFewColumns);
}

Channels ChannelMeter::summarize(std::vector<float> norms, std::uint64_t few) {
  Channels channels;
  channels.count = norms.size();
  std::vector<float> living;
  living.reserve(norms.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] != 0) {
      living.push_back(norms[i]);
    } else if (channels.dead++ == 0) {
      channels.first_dead = i;
    }
  }
  const auto last =
      std::find_if(norms.rbegin(), norms.rend(), [](float norm) { return norm != 0; });
  channels.dead_at_end = static_cast<std::uint64_t>(last - norms.rbegin());
  if (living.empty()) return channels;
  const auto middle = living.begin() + static_cast<std::ptrdiff_t>(living.size() / 2);
  std::nth_element(living.begin(), middle, living.end());
  channels.median = *middle;
  const bool is_rough =
      channels.median < kLeastNorm ||
      std::any_of(living.begin(), living.end(), [](float norm) { return !std::isfinite(norm); });
  if (is_rough) return channels;
  const double least = channels.median * Channels::kOutlierRatio;
  const auto many = std::max<std::uint64_t>(
      {1, channels.count / kShare, std::min(few, channels.count / kLargestShare)});
  double largest_other = 0;
  double smallest_outlier = 0;
  std::uint64_t found = 0;
  for (const float norm : living) {
    if (norm < least) {
      largest_other = std::max<double>(largest_other, norm);
    } else {
      smallest_outlier = found++ == 0 ? norm : std::min<double>(smallest_outlier, norm);
    }
  }
  if (found == 0 || found > many || smallest_outlier < largest_other * kGap) return channels;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] >= least) channels.outliers.push_back({i, double{norms[i]} / channels.median});
  }
  std::stable_sort(channels.outliers.begin(), channels.outliers.end(),
                   [](const auto& a, const auto& b) { return a.ratio > b.ratio; });
  if (channels.outliers.size() > Channels::kMaxOutliers) {
    channels.outliers.resize(Channels::kMaxOutliers);
  }
  return channels;
}

}  // namespace espalier
