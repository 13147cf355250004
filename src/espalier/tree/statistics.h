// Statistics of a tensor's elements, which come in pieces.
#ifndef ESPALIER_TREE_STATISTICS_H_
#define ESPALIER_TREE_STATISTICS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/tree/code_counts.h"
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
  /// -0.0 is less than 0.0, so that their order among the elements does not matter.
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

/// All finite elements by size. Its buckets are those of the upper 16 bits of a binary32: sign,
/// exponent and seven bits of the mantissa, so that a bucket is at most 1/128 as wide as its
/// numbers are large. Their edges do not depend on the dtype or on the elements.
struct Histogram {
  /// Which edge belongs to a bucket depends on its sign, and negative buckets mirror positive ones:
  ///   - above zero, the lower: lower <= x < upper; but 0 < x in the bucket that begins at 0;
  ///   - below zero, the upper: lower < x <= upper; but x < 0 in the bucket that ends at 0;
  ///   - lower = upper = 0: the zeros, of either sign.
  /// Numbers closer to zero than any binary32 are in the buckets beside zero. Those of 2^128 or
  /// more, which no binary32 is, are in the last bucket on their side: there its outer edge is the
  /// outermost of them, which it includes.
  struct Bucket {
    double lower = 0;
    double upper = 0;
    std::uint64_t count = 0;  // above 0
  };
  /// From the least to the greatest. Not all are adjacent: those that hold nothing are left out.
  std::vector<Bucket> buckets;
};

/// Looks at elements piece by piece and tells their summary and histogram at any time.
///
/// The same bytes in the same pieces give the same result, to the last bit. All counts, extremes
/// and histograms depend on nothing but the elements; of types of at most 16 bits, so do mean and
/// deviation, which are then exact but for their last rounding or two. Of wider types, pieces and
/// their order have a part in how mean and deviation are rounded.
///
/// Takes up to 1 MiB of memory, from the first add() on. Making a result takes up to some 4 MiB for
/// a while, if nearly all codes of 16 bits occur, and mostly far less. Not thread-safe. Passes
/// std::bad_alloc.
class Statistics {
 public:
  explicit Statistics(DType dtype);

  /// Looks at all elements in `packed`, from its first bit on; of an opaque dtype, at nothing. What
  /// is no whole element at its end is ignored: only the last piece should have that. So pieces are
  /// of whole elements, and of multiples of three bytes where elements have six bits.
  void add(ByteSpan packed);
  /// Adds what `other` has seen, as further pieces. Does nothing if its dtype is another.
  void merge(const Statistics& other);
  /// Forgets all elements, and keeps the memory.
  void clear();

  Summary summary() const;
  Histogram histogram() const;

 private:
  struct Weighted {
    double value;
    std::uint64_t count;
  };

  bool is_counted() const;
  std::vector<Weighted> weighted() const;
  Summary summary_of_counted() const;
  Summary floats(ByteSpan packed);
  Summary wide(ByteSpan packed);

  DType dtype_;
  /// Of types of at most 16 bits, the codes of the elements, and everything follows from them. Of
  /// others, the buckets of the histogram.
  CodeCounts codes_;
  Summary summary_;
  std::array<std::uint64_t, 2> zeros_in_buckets_{};  // 0.0 and -0.0: floats alone have them there
};

}  // namespace espalier

#endif  // ESPALIER_TREE_STATISTICS_H_
