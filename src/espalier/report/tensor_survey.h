// Surveys a tensor's elements in one pass.
#ifndef ESPALIER_REPORT_TENSOR_SURVEY_H_
#define ESPALIER_REPORT_TENSOR_SURVEY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/dtype.h"
#include "espalier/report/channels.h"
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
  /// Elements of the largest magnitude that the dtype has.
  std::uint64_t saturated = 0;
  /// The first element that is NaN, and the first infinite one, counted in row-major order.
  std::optional<std::uint64_t> first_nan;
  std::optional<std::uint64_t> first_infinite;
  /// Whether one is positive.
  bool is_infinite_above = false;
  Channels rows;
  Channels columns;
  /// Of the packed bytes.
  Hash128 hash;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;

  /// Whether all elements are finite and equal; false if there are none.
  bool is_constant() const;
  bool is_zero() const { return summary.zeros == elements && elements > 0; }
};

/// Takes the elements of a tensor in order and surveys them. Takes 1.5 MiB of memory, and twelve
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
  std::vector<float> block_;
};

}  // namespace espalier

#endif  // ESPALIER_REPORT_TENSOR_SURVEY_H_
