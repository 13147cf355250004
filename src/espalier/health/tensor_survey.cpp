#include "espalier/health/tensor_survey.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "espalier/base/little_endian.h"
#include "espalier/dtype.h"
#include "espalier/tree/elements.h"
#include "espalier/tree/magnitude.h"

namespace espalier {
namespace {

// A multiple of what any dtype packs into whole bytes; small enough for the cache.
constexpr std::size_t kSurveyBlock = 4096;
constexpr std::uint32_t kInfinity = 0x7f800000;
// A tensor of fewer repeats nothing that is long enough to tell.
constexpr std::uint64_t kLeastForAnchors = 1024;
static_assert(kSurveyBlock <= AnchorFinder::kMostAtOnce);

// Whether all are finite, in integers, so that compilers vectorise it.
bool all_finite(std::span<const float> elements) {
  std::int32_t largest = 0;
  for (const float x : elements) {
    const auto size = static_cast<std::int32_t>(bits_as<std::uint32_t>(x) & 0x7fffffff);
    largest = size > largest ? size : largest;
  }
  return static_cast<std::uint32_t>(largest) < kInfinity;
}

// Numbers that binary32 does not hold are as large as those that it does.
float to_float(double x) {
  constexpr double kMax = std::numeric_limits<float>::max();
  constexpr double kMin = std::numeric_limits<float>::denorm_min();
  if (!std::isfinite(x)) return static_cast<float>(x);
  if (x != 0 && std::abs(x) < kMin) return static_cast<float>(std::copysign(kMin, x));
  return static_cast<float>(std::clamp(x, -kMax, kMax));
}

template <class T>
void decode(DType dtype, ByteSpan packed, std::span<float> out) {
  std::array<T, 256> elements;
  for (std::size_t done = 0; done < out.size();) {
    const std::span<T> part(elements.data(), std::min(elements.size(), out.size() - done));
    decode_elements<T>(dtype, packed, done, part);
    for (const T& x : part) {
      if constexpr (std::is_same_v<T, std::complex<double>>) {
        out[done++] = to_float(magnitude(x));
      } else {
        out[done++] = to_float(static_cast<double>(x));
      }
    }
  }
}

void to_floats(DType dtype, ByteSpan packed, std::span<float> out) {
  if (dtype == DType::kF32) {
    std::memcpy(out.data(), packed.data(), out.size_bytes());
    return;
  }
  if (dtype == DType::kBF16) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto upper = load_le<std::uint16_t>(packed.data() + 2 * i);
      out[i] = bits_as<float>(std::uint32_t{upper} << 16);
    }
    return;
  }
  switch (element_type(dtype)) {
    case ElementType::kInt64:
      return decode<std::int64_t>(dtype, packed, out);
    case ElementType::kUint64:
      return decode<std::uint64_t>(dtype, packed, out);
    case ElementType::kComplex128:
      return decode<std::complex<double>>(dtype, packed, out);
    default:
      return decode<double>(dtype, packed, out);
  }
}

constexpr double kMaxF16 = 65504;

// The largest magnitude of a type for which it says that a number did not fit; 0 for the others.
double limit_of(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3FN:
      return 448;
    case DType::kF8E4M3FNUZ:
      return 240;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return 57344;
    case DType::kF6E2M3FN:
      return 7.5;
    case DType::kF6E3M2FN:
      return 28;
    case DType::kF4E2M1FN:
      return 6;
    case DType::kF16:
      return kMaxF16;
    case DType::kBF16:
      return 0x1.fep127;
    default:
      return 0;
  }
}

// Floats of a type below it have fewer digits.
double least_normal(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-14;
    case DType::kBF16:
    case DType::kF32:
      return 0x1p-126;
    default:
      return 0;
  }
}

struct Magnitude {
  double size;
  std::uint64_t count;
};

std::vector<Magnitude> magnitudes_of(const Histogram& histogram, bool is_exact) {
  std::vector<Magnitude> magnitudes;
  magnitudes.reserve(histogram.buckets.size());
  for (const auto& [lower, upper, count] : histogram.buckets) {
    const double inner = std::min(std::abs(lower), std::abs(upper));
    const double outer = std::max(std::abs(lower), std::abs(upper));
    magnitudes.push_back({is_exact ? inner : inner + (outer - inner) / 2, count});
  }
  std::sort(magnitudes.begin(), magnitudes.end(),
            [](const Magnitude& a, const Magnitude& b) { return a.size < b.size; });
  return magnitudes;
}

double quantile(const std::vector<Magnitude>& magnitudes, std::uint64_t count, double share) {
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count - 1));
  std::uint64_t before = 0;
  for (const auto& [size, of_size] : magnitudes) {
    before += of_size;
    if (before > wanted) return size;
  }
  return 0;
}

}  // namespace

bool is_judged(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

bool TensorSurvey::is_judged() const { return espalier::is_judged(dtype); }

bool TensorSurvey::is_constant() const { return distinct == 1 || is_zero(); }

double TensorSurvey::largest() const {
  if (!summary.min || !summary.max) return 0;
  return std::max(std::abs(to_double(*summary.min)), std::abs(to_double(*summary.max)));
}

Surveyor::Surveyor(DType dtype, std::span<const std::uint64_t> shape)
    : dtype_(dtype),
      shape_(shape.begin(), shape.end()),
      view_(matrix_view(shape)),
      statistics_(dtype),
      channels_(dtype == DType::kOpaque ? MatrixView() : view_),
      expected_(shape_elements(shape).value_or(0)),
      runs_(std::max<std::size_t>(1, dtype_bits(dtype) / 8)) {
  if (!is_judged(dtype)) return;
  const std::size_t width = dtype_bits(dtype) / 8;
  if (width >= 4) distinct_.emplace(width);
  if (expected_ >= kLeastForAnchors) anchors_.emplace(width, expected_);
  if (!channels_.is_on()) return;
  if (view_.columns >= RowComparer::kLeastColumns) rows_.emplace(width, view_.columns);
  if (view_.rows >= Spectrum::kLeastSide && view_.columns >= Spectrum::kLeastSide) {
    spectrum_.emplace(view_.rows, view_.columns);
  }
}

void Surveyor::add(ByteSpan packed) {
  hasher_.update(packed);
  bytes_ += packed.size();
  if (dtype_ == DType::kOpaque) return;
  // The last byte may have bits that are no element's.
  const std::uint64_t count =
      std::min(elements_in(packed.size(), dtype_bits(dtype_)), expected_ - elements_);
  statistics_.add(packed);
  measure(packed, count);
}

void Surveyor::measure(ByteSpan packed, std::uint64_t count) {
  block_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(count, kSurveyBlock)));
  while (count > 0) {
    const std::span<float> block(
        block_.data(), static_cast<std::size_t>(std::min<std::uint64_t>(count, kSurveyBlock)));
    to_floats(dtype_, packed, block);
    // Its buckets have eight numbers each.
    if (dtype_ == DType::kF16) {
      saturated_ +=
          static_cast<std::uint64_t>(std::count_if(block.begin(), block.end(), [](float x) {
            return std::abs(x) == static_cast<float>(kMaxF16);
          }));
    }
    if (!all_finite(block)) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        if (std::isfinite(block[i])) continue;
        auto& first = std::isnan(block[i]) ? first_nan_ : first_infinite_;
        if (!first) first = elements_ + i;
        is_infinite_above_ = is_infinite_above_ || block[i] > 0;
        block[i] = 0;
      }
    }
    channels_.add(block);
    if (spectrum_) spectrum_->add(block);
    const std::size_t bytes = std::min(packed.size(), kSurveyBlock * dtype_bits(dtype_) / 8);
    if (is_judged(dtype_)) look_at_bits(packed.first(block.size() * dtype_bits(dtype_) / 8), block);
    elements_ += block.size();
    count -= block.size();
    packed = packed.subspan(bytes);
  }
}

void Surveyor::look_at_bits(ByteSpan packed, std::span<const float> elements) {
  const std::size_t words = packed.size() / sizeof(std::uint64_t);
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < words; ++i) used |= load_le<std::uint64_t>(packed.data() + 8 * i);
  const std::size_t width = dtype_bits(dtype_) / 8;
  for (std::size_t at = 8 * words; at < packed.size(); at += width) {
    used |= width == 2 ? load_le<std::uint16_t>(packed.data() + at)
                       : load_le<std::uint32_t>(packed.data() + at);
  }
  for (std::size_t bits = 32; bits >= 8 * width; bits /= 2) used |= used >> bits;
  used_bits_ |= used;
  if (is_integral_) {
    is_integral_ =
        std::all_of(elements.begin(), elements.end(), [](float x) { return x == std::rint(x); });
  }
  runs_.add(packed);
  if (distinct_) distinct_->add(packed);
  if (anchors_) anchors_->add(packed);
  if (rows_) rows_->add(packed);
}

void Surveyor::add_bits(TensorSurvey& survey) const {
  if (!is_judged(dtype_)) {
    const Summary& summary = survey.summary;
    const bool is_constant = summary.min && summary.finite == elements_ &&
                             to_double(*summary.min) == to_double(*summary.max);
    survey.distinct = is_constant ? 1 : 0;
    return;
  }
  survey.distinct =
      distinct_ ? distinct_->count()
                : std::min<std::uint64_t>(statistics_.distinct_codes(), DistinctValues::kMost);
  survey.low_zero_bits = used_bits_ == 0 ? 0 : std::countr_zero(used_bits_);
  survey.is_integral = is_integral_ && survey.summary.finite == elements_;
  if (survey.distinct > 1) {
    survey.runs = runs_.runs();
    if (anchors_) survey.anchors = anchors_->anchors();
  }
  if (rows_) survey.equal_rows = rows_->equal_rows();
  if (spectrum_) survey.weaker_half = spectrum_->weaker_half();
}

TensorSurvey Surveyor::survey() const {
  TensorSurvey survey;
  survey.dtype = dtype_;
  survey.shape = shape_;
  survey.view = view_;
  survey.summary = statistics_.summary();
  survey.hash = hasher_.hash();
  survey.elements = elements_;
  survey.bytes = bytes_;
  survey.first_nan = first_nan_;
  survey.first_infinite = first_infinite_;
  survey.is_infinite_above = is_infinite_above_;
  const Summary& summary = survey.summary;
  survey.rows = channels_.rows(survey.largest());
  survey.columns = channels_.columns(survey.largest());
  add_bits(survey);
  if (summary.finite == 0) return survey;
  const auto finite = static_cast<double>(summary.finite);
  survey.rms = std::hypot(summary.mean, summary.deviation());
  survey.norm = survey.rms * std::sqrt(finite);
  const Histogram histogram = statistics_.histogram();
  // A bucket of bf16 has one number, and so has one of any narrower type.
  const bool is_exact = dtype_ == DType::kBF16 || dtype_bits(dtype_) <= 8;
  const std::vector<Magnitude> magnitudes = magnitudes_of(histogram, is_exact);
  const std::array<std::pair<double*, double>, 4> wanted = {{{&survey.median_size, 0.5},
                                                             {&survey.size_90, 0.9},
                                                             {&survey.size_99, 0.99},
                                                             {&survey.size_999, 0.999}}};
  const double largest =
      std::max(std::abs(to_double(*summary.min)), std::abs(to_double(*summary.max)));
  for (const auto& [out, share] : wanted) {
    // The middle of a bucket may lie beyond all elements.
    *out = std::min(quantile(magnitudes, summary.finite, share), largest);
  }
  for (const auto& [size, count] : magnitudes) {
    if (size == 0) continue;
    survey.least_size = std::min(size, largest);
    break;
  }
  const double normal = least_normal(dtype_);
  for (const auto& [lower, upper, count] : histogram.buckets) {
    if (upper <= 0 && lower < 0) survey.negative += count;
    const double outer = std::max(std::abs(lower), std::abs(upper));
    if (outer > 0 && outer <= normal) survey.denormal += count;
  }
  survey.saturated = saturated_;
  if (const double limit = limit_of(dtype_); limit > 0 && is_exact) {
    for (const auto& [lower, upper, count] : histogram.buckets) {
      const double inner = std::min(std::abs(lower), std::abs(upper));
      const double outer = std::max(std::abs(lower), std::abs(upper));
      if (inner <= limit && outer > limit) survey.saturated += count;
    }
  }
  return survey;
}

}  // namespace espalier
