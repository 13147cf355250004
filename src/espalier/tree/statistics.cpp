#include "espalier/tree/statistics.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/tree/elements.h"
#include "espalier/tree/magnitude.h"

namespace espalier {
namespace {

// Elements per block: a block stays in the cache and fits on a small stack.
constexpr std::size_t kFloatBlock = 4096;
constexpr std::size_t kWideBlock = 1024;

// A bucket's number is the upper half of a binary32. These are the sign, the last bucket, and the
// one after it, which begins with infinity.
constexpr std::uint32_t kNegative = 0x8000;
constexpr std::uint32_t kLastBucket = 0x7f7f;
constexpr std::uint32_t kBuckets = 0x10000;

// -- Order

bool precedes(double a, double b) { return a < b || (a == b && std::signbit(a) > std::signbit(b)); }
bool precedes(const Number& a, const Number& b) {
  const double* x = std::get_if<double>(&a);
  const double* y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? precedes(*x, *y) : a < b;
}

template <class T>
using KeyOf = std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>;

// Maps a number's bits to an integer with the same order, -0.0 before 0.0, and back.
template <class Key>
Key ordered(Key bits) {
  using Unsigned = std::make_unsigned_t<Key>;
  const auto sign = static_cast<Unsigned>(bits >> std::numeric_limits<Key>::digits);
  return bits ^ static_cast<Key>(sign >> 1);
}

// -- Sums

// A sum that is exact except for its last rounding, unless numbers cancel to one part in 2^50:
// rounding errors are summed separately (Knuth; Ogita, Rump, Oishi).
class ExactSum {
 public:
  void add(double x) {
    const double sum = sum_ + x;
    const double added = sum - sum_;
    error_ += (sum_ - (sum - added)) + (x - added);
    sum_ = sum;
  }
  double total() const { return sum_ + error_; }

 private:
  double sum_ = 0;
  double error_ = 0;
};

// Two numbers in one register: written by hand, because no compiler vectorises all of these loops.
using Pair = double __attribute__((vector_size(16)));
// Sums have several lanes: less rounding error than one long sum, and faster, because lanes do not
// wait for each other.
constexpr std::size_t kPairs = 4;
using Lanes = std::array<Pair, kPairs>;

double total(const Lanes& lanes) {
  const Pair sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  return sum[0] + sum[1];
}

// The power of two that divides numbers before they are added and squared; 0 if sums of 2^60
// squares are far from overflow, and squares far from underflow.
int scale_for(double min, double max) {
  const double largest = std::max(std::abs(min), std::abs(max));
  if (largest == 0) return Summary::kNoScale;
  const int exponent = std::ilogb(largest);
  return exponent > 400 || exponent < -400 ? exponent : 0;
}

// Only rounding can put a mean outside its range, or make a deviation exceed it.
double unscaled(double value, int scale) {
  constexpr double kMax = std::numeric_limits<double>::max();
  return std::clamp(std::ldexp(value, scale), -kMax, kMax);
}

// Sums of the distances from a number near the mean, and of their squares.
struct Distances {
  double sum;
  double squares;
};

// Not inlined, like range_of(): both are called twice, and a browser has to download every copy.
template <class T>
[[gnu::noinline]] Distances distances(std::span<const T> numbers, double pivot) {
  Lanes sums{};
  Lanes squares{};
  const auto add = [&](Pair distance, std::size_t k) {
    sums[k] += distance;
    squares[k] += distance * distance;
  };
  std::size_t i = 0;
  for (; i + 2 * kPairs <= numbers.size(); i += 2 * kPairs) {
    for (std::size_t k = 0; k < kPairs; ++k) {
      add(Pair{numbers[i + 2 * k], numbers[i + 2 * k + 1]} - pivot, k);
    }
  }
  for (; i < numbers.size(); ++i) add(Pair{double{numbers[i]} - pivot, 0}, 0);
  return {total(sums), total(squares)};
}

// Mean and squares of finite numbers, in one pass. Uses distances from one of the numbers, because
// plain squares lose all precision if the mean is far from zero. If that number is far from the
// mean, most of the sum cancels, and a second pass follows.
template <class T>
void add_moments(std::span<const T> numbers, Summary& summary) {
  const auto count = static_cast<double>(numbers.size());
  double pivot = numbers[0];
  Distances found = distances(numbers, pivot);
  if (found.sum * found.sum > 0.9 * count * found.squares) {
    pivot += found.sum / count;
    found = distances(numbers, pivot);
  }
  const double offset = found.sum / count;
  summary.mean = unscaled(pivot + offset, summary.scale);
  summary.squares = std::max(0.0, found.squares - found.sum * offset);
}

// -- Buckets

// The bucket of a finite number: the upper half of the binary32 that it rounds to, toward zero.
// Zero has no bucket of its own here.
std::uint32_t bucket_of(double x) {
  const auto bits = bits_as<std::uint64_t>(x);
  const auto sign = static_cast<std::uint32_t>(bits >> 63) * kNegative;
  const double size = std::abs(x);
  if (size >= 0x1p128) return sign | kLastBucket;
  if (size < 0x1p-126) return sign | static_cast<std::uint32_t>(size * 0x1p133);
  const std::uint64_t upper = (bits & ~(std::uint64_t{1} << 63)) >> 45;
  return sign | static_cast<std::uint32_t>(upper - (std::uint64_t{1023 - 127} << 7));
}

// Conversion to double may round an integer up into the next bucket, so the bits that do not fit a
// double are cleared first.
template <class T>
double toward_zero(T x) {
  // Branch-free, because signs are hard to predict.
  const std::uint64_t negative = x < 0 ? 1 : 0;
  const std::uint64_t size = (static_cast<std::uint64_t>(x) ^ (0 - negative)) + negative;
  const auto kept = static_cast<double>(size >> 53 != 0 ? size & ~std::uint64_t{0x7ff} : size);
  return kept * (1 - 2 * static_cast<double>(negative));
}

// The edge of a bucket above zero that is closer to zero.
double edge(std::uint32_t bucket) {
  return bucket > kLastBucket ? 0x1p128 : static_cast<double>(bits_as<float>(bucket << 16));
}

// -- Blocks

// The elements of a block, then the finite ones, and their statistics.
struct Block {
  Summary summary;
  std::array<double, kWideBlock> numbers;
  std::span<double> reals;
  std::array<double, kWideBlock> integers_toward_zero;
  std::span<const double> toward_zero;
};

// The least and the greatest of many numbers, by ordered().
template <class T>
struct Range {
  KeyOf<T> min = std::numeric_limits<KeyOf<T>>::max();
  KeyOf<T> max = std::numeric_limits<KeyOf<T>>::min();
  std::size_t zeros = 0;
  std::size_t negative_zeros = 0;

  bool is_finite() const {
    const auto infinity = bits_as<KeyOf<T>>(std::numeric_limits<T>::infinity());
    return max < infinity && min > ~infinity;
  }
};

// In integers, so that compilers vectorise it.
template <class T>
[[gnu::noinline]] Range<T> range_of(std::span<const T> numbers) {
  Range<T> range;
  KeyOf<T> zeros = 0;
  KeyOf<T> negative_zeros = 0;
  for (const T x : numbers) {
    const KeyOf<T> key = ordered(bits_as<KeyOf<T>>(x));
    range.min = key < range.min ? key : range.min;
    range.max = key > range.max ? key : range.max;
    zeros += key == 0 ? 1 : 0;
    negative_zeros += key == -1 ? 1 : 0;
  }
  range.zeros = static_cast<std::size_t>(zeros);
  range.negative_zeros = static_cast<std::size_t>(negative_zeros);
  return range;
}

// Removes the numbers that are not finite, and computes all statistics that need no sum.
template <class T>
Range<T> keep_finite(std::span<T>& numbers, Summary& summary) {
  Range<T> range = range_of<T>(numbers);
  if (!range.is_finite()) {
    std::size_t kept = 0;
    for (const T x : numbers) {
      if (std::isfinite(x)) {
        numbers[kept++] = x;
      } else {
        ++(std::isnan(x) ? summary.nans : summary.infinities);
      }
    }
    numbers = numbers.first(kept);
    range = range_of<T>(numbers);
  }
  summary.finite = numbers.size();
  summary.zeros = range.zeros + range.negative_zeros;
  if (!numbers.empty()) {
    summary.min = static_cast<double>(bits_as<T>(ordered(range.min)));
    summary.max = static_cast<double>(bits_as<T>(ordered(range.max)));
  }
  return range;
}

template <class T>
void look_at(std::span<const T> integers, Block& block) {
  if (integers.empty()) return;
  T min = integers[0];
  T max = integers[0];
  std::uint64_t zeros = 0;
  for (std::size_t i = 0; i < integers.size(); ++i) {
    min = std::min(min, integers[i]);
    max = std::max(max, integers[i]);
    zeros += integers[i] == 0 ? 1 : 0;
    block.numbers[i] = static_cast<double>(integers[i]);
    block.integers_toward_zero[i] = toward_zero(integers[i]);
  }
  block.summary.finite = integers.size();
  block.summary.zeros = zeros;
  block.summary.min = min;
  block.summary.max = max;
  block.reals = std::span(block.numbers).first(integers.size());
  block.toward_zero = std::span(block.integers_toward_zero).first(integers.size());
}

void look_at(std::span<const double> elements, Block& block) {
  std::copy(elements.begin(), elements.end(), block.numbers.begin());
  block.reals = std::span(block.numbers).first(elements.size());
  keep_finite(block.reals, block.summary);
  block.toward_zero = block.reals;
}

void look_at(std::span<const std::complex<double>> elements, Block& block) {
  std::array<double, kWideBlock> sizes;
  std::transform(elements.begin(), elements.end(), sizes.begin(), magnitude);
  look_at(std::span<const double>(sizes).first(elements.size()), block);
}

template <class T>
void look_at(DType dtype, ByteSpan packed, Block& block) {
  std::array<T, kWideBlock> elements;
  const std::span<T> used(elements.data(), packed.size() * 8 / dtype_bits(dtype));
  decode_elements<T>(dtype, packed, 0, used);
  look_at(std::span<const T>(used), block);
}

Codes codes_of(DType dtype) {
  switch (dtype_bits(dtype)) {
    case 6:
      return Codes::kSixBits;
    case 2:
    case 4:
    case 8:
      return Codes::kBytes;
    default:
      return dtype == DType::kF32 ? Codes::kUpperHalves : Codes::kWords;
  }
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
  if (precedes(*other.min, *min)) min = other.min;
  if (precedes(*max, *other.max)) max = other.max;
  // Chan, Golub, LeVeque: updating formulae for computing sample variances.
  const auto own = static_cast<double>(finite);
  const auto added = static_cast<double>(other.finite);
  const int common = std::max(scale, other.scale);
  const double scaled = std::ldexp(mean, -common);
  const double distance = std::ldexp(other.mean, -common) - scaled;
  mean = unscaled(scaled + distance * added / (own + added), common);
  squares = std::ldexp(squares, 2 * (scale - common)) +
            (std::ldexp(other.squares, 2 * (other.scale - common)) +
             distance * distance * (own * added / (own + added)));
  scale = common;
  finite += other.finite;
}

Statistics::Statistics(DType dtype) : dtype_(dtype), codes_(codes_of(dtype)) {}

bool Statistics::is_counted() const { return dtype_bits(dtype_) <= 16; }

void Statistics::add(ByteSpan packed) {
  if (dtype_ == DType::kOpaque) return;
  if (is_counted()) return codes_.add(packed);
  // A piece is merged as a whole: sums of few large parts round less than sums of many small ones.
  Summary piece;
  const std::size_t bytes = dtype_bits(dtype_) / 8;
  const std::size_t block = bytes * (dtype_ == DType::kF32 ? kFloatBlock : kWideBlock);
  packed = packed.first(packed.size() / bytes * bytes);
  while (!packed.empty()) {
    const ByteSpan part = packed.first(std::min(packed.size(), block));
    piece.merge(dtype_ == DType::kF32 ? floats(part) : wide(part));
    packed = packed.subspan(part.size());
  }
  summary_.merge(piece);
}

Summary Statistics::wide(ByteSpan packed) {
  Block block;
  switch (element_type(dtype_)) {
    case ElementType::kInt64:
      look_at<std::int64_t>(dtype_, packed, block);
      break;
    case ElementType::kUint64:
      look_at<std::uint64_t>(dtype_, packed, block);
      break;
    case ElementType::kFloat64:
      look_at<double>(dtype_, packed, block);
      break;
    default:
      look_at<std::complex<double>>(dtype_, packed, block);
  }
  Summary& summary = block.summary;
  if (block.reals.empty()) return summary;
  std::array<std::uint16_t, kWideBlock + 1> buckets;
  std::size_t nonzero = 0;
  for (const double x : block.toward_zero) {
    buckets[nonzero] = static_cast<std::uint16_t>(bucket_of(x));
    nonzero += x != 0 ? 1 : 0;
  }
  codes_.add(std::as_bytes(std::span(buckets).first(nonzero)));
  summary.scale = scale_for(to_double(*summary.min), to_double(*summary.max));
  if (summary.scale != 0) {
    for (double& x : block.reals) x = std::ldexp(x, -summary.scale);
  }
  add_moments(std::span<const double>(block.reals), summary);
  return summary;
}

Summary Statistics::floats(ByteSpan packed) {
  codes_.add(packed);
  std::array<float, kFloatBlock> elements;
  std::span<float> finite(elements.data(), packed.size() / sizeof(float));
  std::memcpy(elements.data(), packed.data(), finite.size_bytes());
  Summary summary;
  const Range<float> range = keep_finite(finite, summary);
  zeros_in_buckets_[0] += range.zeros;
  zeros_in_buckets_[1] += range.negative_zeros;
  if (finite.empty()) return summary;
  summary.scale = summary.zeros == summary.finite ? Summary::kNoScale : 0;
  add_moments(std::span<const float>(finite), summary);
  return summary;
}

void Statistics::merge(const Statistics& other) {
  if (other.dtype_ != dtype_) return;
  codes_.merge(other.codes_);
  summary_.merge(other.summary_);
  for (std::size_t i = 0; i < 2; ++i) zeros_in_buckets_[i] += other.zeros_in_buckets_[i];
}

void Statistics::clear() {
  codes_.clear();
  summary_ = {};
  zeros_in_buckets_ = {};
}

// The elements of a type that is counted by codes.
std::vector<Statistics::Weighted> Statistics::weighted() const {
  std::vector<Weighted> elements;
  const std::uint32_t bits = dtype_bits(dtype_);
  if (bits == 0) return elements;
  const std::size_t width = bits > 8 ? 2 : 1;
  const std::size_t in_code = width * 8 / bits;
  codes_.for_each([&](std::uint16_t code, std::uint64_t count) {
    const ByteSpan packed = std::as_bytes(std::span(&code, 1)).first(width);
    std::array<double, 4> reals{};
    if (dtype_is_floating(dtype_)) {
      decode_elements<double>(dtype_, packed, 0, std::span(reals).first(in_code));
    } else {
      std::array<std::int64_t, 4> integers{};
      decode_elements<std::int64_t>(dtype_, packed, 0, std::span(integers).first(in_code));
      std::copy(integers.begin(), integers.end(), reals.begin());
    }
    for (std::size_t i = 0; i < in_code; ++i) elements.push_back({reals[i], count});
  });
  return elements;
}

// No scale is needed: every type of at most 16 bits is within the range of binary32.
Summary Statistics::summary_of_counted() const {
  const std::vector<Weighted> elements = weighted();
  Summary summary;
  ExactSum sum;
  double min = 0;
  double max = 0;
  for (const auto& [value, count] : elements) {
    if (std::isnan(value)) {
      summary.nans += count;
    } else if (std::isinf(value)) {
      summary.infinities += count;
    } else {
      if (summary.finite == 0) min = max = value;
      if (precedes(value, min)) min = value;
      if (precedes(max, value)) max = value;
      summary.finite += count;
      summary.zeros += value == 0 ? count : 0;
      // Exact: a value has at most 16 significant bits, and no tensor has 2^37 elements.
      sum.add(value * static_cast<double>(count));
    }
  }
  if (summary.finite == 0) return summary;
  const bool is_real = dtype_is_floating(dtype_);
  summary.min = is_real ? Number(min) : Number(static_cast<std::int64_t>(min));
  summary.max = is_real ? Number(max) : Number(static_cast<std::int64_t>(max));
  summary.mean = sum.total() / static_cast<double>(summary.finite);
  ExactSum squares;
  for (const auto& [value, count] : elements) {
    const double distance = value - summary.mean;
    if (std::isfinite(value)) squares.add(distance * distance * static_cast<double>(count));
  }
  summary.squares = squares.total();
  summary.scale = summary.zeros == summary.finite ? Summary::kNoScale : 0;
  return summary;
}

std::uint64_t Statistics::distinct_codes() const {
  std::uint64_t count = 0;
  if (is_counted()) codes_.for_each([&](std::uint16_t, std::uint64_t) { ++count; });
  return count;
}

Summary Statistics::summary() const { return is_counted() ? summary_of_counted() : summary_; }

Histogram Statistics::histogram() const {
  // Counts of buckets in ascending order, the negative ones behind the others.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> counts;
  std::uint64_t zeros = summary_.zeros;
  if (is_counted()) {
    for (const auto& [value, count] : weighted()) {
      if (value == 0) {
        zeros += count;
      } else if (std::isfinite(value)) {
        counts.emplace_back(bucket_of(value), count);
      }
    }
    sort_stably(counts, [](const auto& a, const auto& b) { return a.first < b.first; });
  } else {
    codes_.for_each([&](std::uint16_t code, std::uint64_t count) {
      if (code == 0) count -= zeros_in_buckets_[0];
      if (code == kNegative) count -= zeros_in_buckets_[1];
      if ((code & ~kNegative) <= kLastBucket && count > 0) counts.emplace_back(code, count);
    });
  }
  const auto outermost = [](const std::optional<Number>& number) {
    return std::max(edge(kLastBucket + 1), number ? std::abs(to_double(*number)) : 0);
  };
  const auto negatives = static_cast<std::size_t>(std::count_if(
      counts.begin(), counts.end(), [](const auto& at) { return at.first >= kNegative; }));
  Histogram histogram;
  std::uint32_t last = kBuckets;
  for (std::size_t i = 0; i <= counts.size(); ++i) {
    if (i == negatives && zeros > 0) histogram.buckets.push_back({0, 0, zeros});
    if (i == counts.size()) break;
    const auto [code, count] = counts[i < negatives ? counts.size() - 1 - i : i - negatives];
    // Several codes may be in one bucket.
    if (code == std::exchange(last, code)) {
      histogram.buckets.back().count += count;
      continue;
    }
    const bool is_negative = code >= kNegative;
    const std::uint32_t bucket = code & ~kNegative;
    const double near = edge(bucket);
    const double far = bucket == kLastBucket ? outermost(is_negative ? summary_.min : summary_.max)
                                             : edge(bucket + 1);
    // Zero minus the edge is never -0.0.
    histogram.buckets.push_back(is_negative ? Histogram::Bucket{0 - far, 0 - near, count}
                                            : Histogram::Bucket{near, far, count});
  }
  return histogram;
}

}  // namespace espalier
