// How much of a matrix lies in few directions.
#ifndef ESPALIER_HEALTH_SPECTRUM_H_
#define ESPALIER_HEALTH_SPECTRUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace espalier {

/// Takes the rows of a matrix in order and estimates its spectrum from a sketch: each column is
/// added, with a random sign, to one of 32 sums (CountSketch; Charikar, Chen and Farach-Colton,
/// ICALP 2002), and their Gram matrix has the eigenvalues. Looks at up to kMostRows rows, spread
/// evenly. Not thread-safe.
class Spectrum {
 public:
  /// Sides that a matrix has at least.
  static constexpr std::uint64_t kLeastSide = 64;
  static constexpr std::uint64_t kMostRows = 1024;

  Spectrum(std::uint64_t rows, std::uint64_t columns);

  /// Adds the elements that come next, which must be finite.
  void add(std::span<const float> elements);
  /// The share of the squares that is in the weaker half of the 32 directions, as a power of ten
  /// from -12 on. Nothing for zeros, and for numbers whose squares no double holds.
  std::optional<double> weaker_half() const;

 private:
  static constexpr std::size_t kSums = 32;

  void end_row();

  std::uint64_t columns_;
  std::uint64_t every_;  // row that is looked at
  std::uint64_t row_ = 0;
  std::uint64_t column_ = 0;
  std::vector<std::uint8_t> sum_of_;  // by column: the sum, and kSums more if it is subtracted
  std::array<double, 2 * kSums> sums_{};
  std::array<std::array<double, kSums>, kSums> gram_{};
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_SPECTRUM_H_
