// Surveys a tensor's elements in one pass.
#ifndef ESPALIER_HEALTH_TENSOR_SURVEY_H_
#define ESPALIER_HEALTH_TENSOR_SURVEY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/dtype.h"
#include "espalier/health/anchors.h"
#include "espalier/health/channels.h"
#include "espalier/health/distinct_values.h"
#include "espalier/health/equal_rows.h"
#include "espalier/health/runs.h"
#include "espalier/health/spectrum.h"
#include "espalier/tree/statistics.h"

namespace espalier {

/// Everything except the counts of a tensor's elements covers only finite ones.
struct TensorSurvey {
  DType dtype = DType::kOpaque;
  std::vector<std::uint64_t> shape;
  MatrixView view;
  Summary summary;
  /// The square root of the sum and of the mean of the squares; infinite if that is beyond a
  /// double.
  double norm = 0;
  double rms = 0;
  /// Quantiles of the magnitudes, to one part in 128; exact for bf16 and types of at most 8 bits:
  /// the middle, 90 %, 99 % and 99.9 %.
  double median_size = 0;
  double size_90 = 0;
  double size_99 = 0;
  double size_999 = 0;
  /// The least magnitude of those that are not zero, to one part in 128; 0 if there are none.
  double least_size = 0;
  /// Elements below zero, and those that are not zero and below the normal range of the dtype.
  std::uint64_t negative = 0;
  std::uint64_t denormal = 0;
  /// Elements of the largest magnitude that the dtype has.
  std::uint64_t saturated = 0;
  /// The first element that is NaN, and the first infinite one, counted in row-major order.
  std::optional<std::uint64_t> first_nan;
  std::optional<std::uint64_t> first_infinite;
  /// Whether one is positive.
  bool is_infinite_above = false;
  Channels rows;
  Channels columns;
  /// Different values, up to DistinctValues::kMost; of floats of 16 bits and more. 1 of others that
  /// are constant.
  std::uint64_t distinct = 0;
  /// Of these floats: the last bits that are 0 in all elements; whether all are whole numbers.
  int low_zero_bits = 0;
  bool is_integral = false;
  Runs runs;
  EqualRows equal_rows;
  std::optional<double> weaker_half;  // see Spectrum
  std::vector<Anchor> anchors;
  /// Of the packed bytes.
  Hash128 hash;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;

  /// Whether it has floats of which all figures are known: f16, bf16, f32 or f64.
  bool is_judged() const;
  /// Whether all elements are equal; false if there are none, or a NaN.
  bool is_constant() const;
  double largest() const;  // magnitude
  double mean() const { return summary.mean; }
  bool is_zero() const { return summary.zeros == elements && elements > 0; }
};

/// Whether a survey has all figures of elements of this type.
bool is_judged(DType dtype);

/// Takes the elements of a tensor in order and surveys them. Takes 1.6 MiB of memory, and some 32
/// bytes for each row and column. Not thread-safe. Throws std::bad_alloc.
class Surveyor {
 public:
  Surveyor(DType dtype, std::span<const std::uint64_t> shape);

  /// Adds the packed elements that come next, from the first bit of `packed` on. All pieces but the
  /// last hold whole elements: multiples of three bytes for six-bit elements. An opaque dtype has
  /// none, but its bytes are hashed.
  void add(ByteSpan packed);
  TensorSurvey survey() const;

 private:
  void measure(ByteSpan packed, std::uint64_t count);
  // The figures of the bits of floats, and of whole numbers among them.
  void look_at_bits(ByteSpan packed, std::span<const float> elements);
  void add_bits(TensorSurvey& survey) const;

  DType dtype_;
  std::vector<std::uint64_t> shape_;
  MatrixView view_;
  Statistics statistics_;
  ChannelMeter channels_;
  Hasher128 hasher_;
  std::uint64_t elements_ = 0;  // so far
  std::uint64_t bytes_ = 0;
  std::uint64_t expected_ = 0;
  std::optional<std::uint64_t> first_nan_;
  std::optional<std::uint64_t> first_infinite_;
  bool is_infinite_above_ = false;
  std::uint64_t saturated_ = 0;  // of f16
  std::uint64_t used_bits_ = 0;  // in any element
  bool is_integral_ = true;
  RunFinder runs_;
  std::optional<DistinctValues> distinct_;
  std::optional<AnchorFinder> anchors_;
  std::optional<RowComparer> rows_;
  std::optional<Spectrum> spectrum_;
  std::vector<float> block_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_TENSOR_SURVEY_H_
