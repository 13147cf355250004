// The few of several figures that lie apart from all others.
#ifndef ESPALIER_HEALTH_APART_H_
#define ESPALIER_HEALTH_APART_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace espalier {

/// On which side a figure may lie apart.
enum class Side : unsigned char { kBoth, kAbove, kBelow };

/// How far is apart.
struct ApartBounds {
  /// From the middle of the others, in units of the figures, before `far`.
  double least = 0;
  /// The spread of figures that are more alike is as if it were this.
  double floor = 0;
  Side side = Side::kBoth;
  /// Both distances count so many times.
  double far = 1;
};

struct Apart {
  /// The numbers of the figures that lie apart, the farthest first.
  std::vector<std::size_t> which;
  /// Of the others.
  double middle = 0;
  double smallest = 0;
  double largest = 0;
};

/// The most figures, at most one or a tenth of all, that each lie `least` or more from the median
/// of the others, and (2 + 8 / (n - 3)) times the largest distance of these. The largest and not
/// the median distance: of few figures most may be equal, and every other one would lie apart.
/// Nothing of fewer than kSiblings. All figures must be finite.
std::optional<Apart> find_apart(std::span<const double> figures, const ApartBounds& bounds);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_APART_H_
