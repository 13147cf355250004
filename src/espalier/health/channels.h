// Measures the norms of a tensor's rows and columns.
#ifndef ESPALIER_HEALTH_CHANNELS_H_
#define ESPALIER_HEALTH_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Rows or columns whose norms are far beyond all others.
struct LoudChannels {
  std::uint64_t count = 0;
  /// The loudest.
  std::uint64_t first = 0;
  /// The least norm of them, in medians.
  double ratio = 0;
};

/// The rows of a matrix, or its columns. Those whose elements are all zero are dead, the others
/// live.
struct Channels {
  std::uint64_t count = 0;
  std::uint64_t dead = 0;
  std::uint64_t first_dead = 0;
  /// The dead that come after all others.
  std::uint64_t dead_at_end = 0;
  /// The dead that are neither the first nor among those at the end: padding is there.
  std::uint64_t dead_inside = 0;
  /// The median of the L2 norms of the live ones.
  double median = 0;
  /// The greatest norm, in medians; 0 if it is beyond binary32.
  double greatest = 0;
  /// The norm that 98 % are below over the norm that 2 % are, of the live ones; 0 if there are
  /// none, or if it is beyond binary32.
  double spread = 0;
  /// Those that stand out, for one that has others to be compared with.
  std::optional<LoudChannels> loud;
  /// Those that stand out even if nothing is known of others: not if the first is the loudest.
  std::optional<LoudChannels> loud_alone;
  /// A bit for each row, from the lowest of the first word on: whether it is live. Empty if all
  /// are, or none, and for columns.
  std::vector<std::uint64_t> live;
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
  /// Of the rows and columns that are complete. `largest` is the greatest magnitude of an element.
  Channels rows(double largest) const { return summarize(row_norms_, largest); }
  Channels columns(double largest) const;

 private:
  static Channels summarize(std::vector<float> norms, double largest);

  std::size_t columns_ = 0;
  std::size_t column_ = 0;  // of the next element
  float row_squares_ = 0;
  float row_max_ = 0;
  std::vector<float> row_norms_;
  std::vector<float> column_squares_;
  std::vector<float> column_max_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_CHANNELS_H_
