// Statistics of a tensor's elements, added piece by piece.
#ifndef ESPALIER_TREE_STATISTICS_H_
#define ESPALIER_TREE_STATISTICS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/tree/code_counts.h"

namespace espalier {

/// An element, exactly. Complex numbers are represented by their magnitude.
using Number = std::variant<std::int64_t, std::uint64_t, double>;

/// The nearest double.
inline double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

/// Statistics of a tensor's elements. Everything except the counts covers only finite elements.
struct Summary {
  std::uint64_t finite = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  /// -0.0 is less than 0.0, so the order of the elements does not matter.
  std::optional<Number> min;
  std::optional<Number> max;
  double mean = 0;
  /// Sum of the squares of the distances from the mean, each divided by 2^scale, because the square
  /// of a finite number may overflow. The scale is 0 except for very large or small numbers.
  double squares = 0;
  int scale = kNoScale;

  /// The scale of zeros alone: less than that of any number.
  static constexpr int kNoScale = -2000;

  /// The standard deviation of the whole population, like numpy's std().
  double deviation() const;
  /// Adds the summary of further elements. The result depends on the order of the parts.
  void merge(const Summary& other);
};

/// A histogram of all finite elements. A bucket is given by the upper 16 bits of a binary32: sign,
/// exponent and seven bits of the mantissa. So a bucket's width is at most 1/128 of its numbers'
/// size. Edges do not depend on the dtype or on the elements.
struct Histogram {
  /// The included edge depends on the sign, so that negative buckets mirror positive ones:
  ///   - above zero, the lower: lower <= x < upper; but 0 < x in the bucket that begins at 0;
  ///   - below zero, the upper: lower < x <= upper; but x < 0 in the bucket that ends at 0;
  ///   - lower = upper = 0: the zeros, of either sign.
  /// Numbers closer to zero than any binary32 are in the buckets beside zero. Numbers of 2^128 or
  /// more, beyond binary32, are in the last bucket on their side; its outer edge is then the
  /// outermost number, inclusive.
  struct Bucket {
    double lower = 0;
    double upper = 0;
    std::uint64_t count = 0;  // above 0
  };
  /// In ascending order. Empty buckets are left out, so not all are adjacent.
  std::vector<Bucket> buckets;
};

/// Takes elements piece by piece and returns their summary and histogram at any time.
///
/// The same bytes in the same pieces give the same result, to the last bit. Counts, extremes and
/// histograms depend only on the elements. So do mean and deviation for types of at most 16 bits;
/// they are exact except for the last rounding or two. For wider types, the rounding of mean and
/// deviation depends on the pieces and their order.
///
/// Takes up to 1 MiB of memory, from the first add() on. Making a result temporarily takes up to
/// some 4 MiB if nearly all codes of 16 bits occur, and mostly far less. Not thread-safe. Throws
/// std::bad_alloc.
class Statistics {
 public:
  explicit Statistics(DType dtype);

  /// Adds all elements in `packed`, from its first bit on; none for an opaque dtype. Ignores an
  /// incomplete element at the end, so all pieces but the last must hold whole elements: multiples
  /// of three bytes for six-bit elements.
  void add(ByteSpan packed);
  /// Adds the elements of `other` as further pieces. Does nothing if its dtype differs.
  void merge(const Statistics& other);
  /// Removes all elements and keeps the memory.
  void clear();

  Summary summary() const;
  Histogram histogram() const;
  /// How many different bit patterns the elements have; 0 for types of more than 16 bits.
  std::uint64_t distinct_codes() const;

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
  /// For types of at most 16 bits, the codes of the elements, which determine everything. For
  /// others, the buckets of the histogram.
  CodeCounts codes_;
  Summary summary_;
  std::array<std::uint64_t, 2> zeros_in_buckets_{};  // 0.0 and -0.0, for floats only
};

}  // namespace espalier

#endif  // ESPALIER_TREE_STATISTICS_H_
