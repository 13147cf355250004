// Statistics of many numbers, part by part.
#ifndef ESPALIER_TREE_STATISTICS_H_
#define ESPALIER_TREE_STATISTICS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/tree/dtype.h"

namespace espalier {

/// An element, exactly. Complex numbers are represented by their magnitude.
using Number = std::variant<std::int64_t, std::uint64_t, double>;

/// What is said of a tensor's elements. All but the counts is about the finite ones.
struct Summary {
  std::uint64_t finite = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::optional<Number> min;
  std::optional<Number> max;
  double mean = 0;
  /// Sum of the squares of the distances from the mean, each divided by 2^scale: the squares of
  /// numbers that are finite may not be. 0 but for very large or small numbers.
  double squares = 0;
  int scale = kNoScale;

  /// Of nothing but zeros: less than the scale of any number.
  static constexpr int kNoScale = -2000;

  /// The standard deviation of the whole population, as numpy's std().
  double deviation() const;
  /// Adds what was found of further elements. The result depends on the order of the parts.
  void merge(const Summary& other);
};

/// Memory of one thread for summarize().
struct SummaryBuffer {
  std::vector<std::int64_t> signed_integers;
  std::vector<std::uint64_t> unsigned_integers;
  std::vector<double> reals;
};

/// The summary of all elements in `packed`; of an opaque dtype, that of nothing. The same bytes
/// give the same result, to the last bit.
Summary summarize(DType dtype, ByteSpan packed, SummaryBuffer& buffer);

}  // namespace espalier

#endif  // ESPALIER_TREE_STATISTICS_H_
