#include "espalier/health/channels.h"

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
// Fewer have no usual norm.
constexpr std::size_t kLeastLive = 16;
// Those that may be loud: if more are, that is how the matrix is. One of a hundred; of few, up to
// four.
constexpr std::size_t kShare = 100;
constexpr std::size_t kFew = 4;
constexpr std::size_t kFewFrom = 40;
constexpr std::size_t kFewTo = 400;
// They have so many times the median norm, and so many times that of the next: without the gap, the
// end of any long tail would be loud.
constexpr double kWide = 15;
constexpr double kGap = 3;
// Or, in powers of ten: so much, and so many times the spread of the others, which is their median
// distance as a standard deviation; the next have less.
constexpr double kTight = 3;
constexpr double kSpreads = 12;
constexpr double kSpreadsOfNext = 5;
constexpr double kPartOfNext = 3;
constexpr double kDeviations = 1.4826;  // of a median distance, for normal numbers
constexpr double kLeastSpread = 0.01;
// The share of the squares of a row that one element may have: else it is the element that is loud.
constexpr double kOneElement = 0.5;
constexpr double kLow = 0.02;
constexpr double kHigh = 0.98;

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

// Of sorted numbers.
template <class T>
double middle_of(const std::vector<T>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return double{sorted[middle - 1]} + (double{sorted[middle]} - double{sorted[middle - 1]}) / 2;
}

// Between two of them, as numpy's quantile() does.
double quantile_of(const std::vector<float>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] +
         (double{sorted[above]} - double{sorted[below]}) * (place - static_cast<double>(below));
}

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

Channels ChannelMeter::columns(double largest) const {
  std::vector<float> norms(columns_);
  for (std::size_t i = 0; i < columns_; ++i) {
    norms[i] = norm_of(column_squares_[i], column_max_[i]);
  }
  Channels columns = summarize(std::move(norms), largest);
  columns.live = {};
  return columns;
}

Channels ChannelMeter::summarize(std::vector<float> norms, double largest) {
  Channels channels;
  channels.count = norms.size();
  channels.live.resize((norms.size() + 63) / 64);
  std::vector<float> live;
  live.reserve(norms.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] != 0) {
      live.push_back(norms[i]);
      channels.live[i / 64] |= std::uint64_t{1} << i % 64;
    } else if (channels.dead++ == 0) {
      channels.first_dead = i;
    }
  }
  const auto last =
      std::find_if(norms.rbegin(), norms.rend(), [](float norm) { return norm != 0; });
  channels.dead_at_end = static_cast<std::uint64_t>(last - norms.rbegin());
  if (channels.dead == 0 || channels.dead == channels.count) channels.live = {};
  const bool is_first_dead = channels.dead > 0 && channels.first_dead == 0;
  if (channels.dead < channels.count) {
    channels.dead_inside = channels.dead - channels.dead_at_end - (is_first_dead ? 1 : 0);
  }
  if (live.empty()) return channels;
  std::sort(live.begin(), live.end());
  channels.median = middle_of(live);
  if (channels.median < kLeastNorm || !std::isfinite(live.back())) return channels;
  channels.greatest = live.back() / channels.median;
  channels.spread = quantile_of(live, kHigh) / quantile_of(live, kLow);
  const double greatest_square = double{live.back()} * double{live.back()};
  if (live.size() < kLeastLive || largest * largest > kOneElement * greatest_square) {
    return channels;
  }
  const auto loudest =
      static_cast<std::uint64_t>(std::max_element(norms.begin(), norms.end()) - norms.begin());
  std::vector<double> distances;
  distances.reserve(live.size());
  for (const float norm : live) distances.push_back(std::abs(std::log10(norm / channels.median)));
  std::sort(distances.begin(), distances.end());
  const double spread = std::max(kDeviations * middle_of(distances), kLeastSpread);
  // The power of ten of the `rank`th greatest norm, in medians.
  const auto power = [&](std::size_t rank) {
    return std::log10(live[live.size() - 1 - rank] / channels.median);
  };
  const bool are_few = live.size() >= kFewFrom && live.size() < kFewTo;
  const std::size_t most = std::max(are_few ? kFew : 1, live.size() / kShare);
  for (std::size_t count = 1; count <= most && count < live.size(); ++count) {
    const double least = power(count - 1);
    const double next = power(count);
    const bool is_wide = least >= std::log10(kWide) && least - next >= std::log10(kGap);
    const bool is_tight = least >= std::log10(kTight) && least >= kSpreads * spread &&
                          next <= kSpreadsOfNext * spread && least >= kPartOfNext * next;
    if (!is_wide && !is_tight) continue;
    const LoudChannels loud{count, loudest, std::pow(10, least)};
    if (!channels.loud) channels.loud = loud;
    if (least < kSpreads * spread || loudest == 0) continue;
    channels.loud_alone = loud;
    break;
  }
  return channels;
}

}  // namespace espalier
