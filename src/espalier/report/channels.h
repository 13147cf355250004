// Measures the norms of a tensor's rows and columns.
#ifndef ESPALIER_REPORT_CHANNELS_H_
#define ESPALIER_REPORT_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace espalier {

/// A tensor as a matrix. Axes of length 1 do not count. A convolution, whose last axis has less
/// than 16 elements, has a row for each filter; any other tensor has a row for each index of all
/// axes but the last.
struct MatrixView {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  /// The axes, other than those of length 1.
  std::size_t rank = 0;

  /// Whether it has several rows and several columns.
  bool is_matrix() const { return rows > 1 && columns > 1; }
};

MatrixView matrix_view(std::span<const std::uint64_t> shape);

/// The rows of a matrix, or its columns.
struct Channels {
  /// One whose norm is far from that of the others.
  struct Outlier {
    std::uint64_t index = 0;
    double ratio = 0;  // its norm in medians
  };

  std::uint64_t count = 0;
  /// Those whose elements are all zero.
  std::uint64_t dead = 0;
  std::uint64_t first_dead = 0;
  /// Those of them that come after all others.
  std::uint64_t dead_at_end = 0;
  /// The median of the L2 norms of those that are not dead.
  double median = 0;
  /// Those whose norm is kOutlierRatio medians or more, if they are few and stand apart: at most
  /// kMaxOutliers of them, the largest first. None if the squares of the elements are beyond
  /// binary32.
  std::vector<Outlier> outliers;

  static constexpr std::size_t kMaxOutliers = 8;
  /// Trained models have columns of ten medians; a column that a fault has multiplied has more.
  static constexpr double kOutlierRatio = 15;
};

/// Takes the elements of a matrix in order and measures its rows and columns. Takes eight bytes for
/// each column and four for each row. Not thread-safe. Throws std::bad_alloc.
class ChannelMeter {
 public:
  /// Rows and columns together that it measures; none of a matrix with more.
  static constexpr std::uint64_t kMostChannels = std::uint64_t{1} << 22;

  explicit ChannelMeter(const MatrixView& view);

  /// Whether it measures anything.
  bool is_on() const { return columns_ > 0; }
  /// Adds the elements that come next, which must be finite.
  void add(std::span<const float> elements);
  /// Of the rows and columns that are complete.
  Channels rows() const { return summarize(row_norms_, 1); }
  Channels columns() const;

 private:
  static Channels summarize(std::vector<float> norms, std::uint64_t few);

  std::size_t columns_ = 0;
  std::size_t column_ = 0;  // of the next element
  float row_squares_ = 0;
  float row_max_ = 0;
  std::vector<float> row_norms_;
  std::vector<float> column_squares_;
  std::vector<float> column_max_;
};

}  // namespace espalier

#endif  // ESPALIER_REPORT_CHANNELS_H_
