// How many different values a tensor's elements have.
#ifndef ESPALIER_HEALTH_DISTINCT_VALUES_H_
#define ESPALIER_HEALTH_DISTINCT_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

/// Counts the different bit patterns of elements of four or eight bytes, up to a bound: once it is
/// reached, further elements cost nothing. Takes 16 to 32 bytes for each value. Not thread-safe.
class DistinctValues {
 public:
  /// No count goes beyond it. Types of 16 bits have not many more in usual weights.
  static constexpr std::size_t kMost = 4096;

  /// `width` is the size of an element in bytes, 4 or 8.
  explicit DistinctValues(std::size_t width) : width_(width) {}

  /// Adds whole elements.
  void add(ByteSpan packed);
  std::size_t count() const { return count_; }

 private:
  template <class Bits>
  void insert(ByteSpan packed);
  std::size_t place_of(std::uint64_t bits) const;
  void grow();

  std::size_t width_;
  std::size_t count_ = 0;
  bool has_zero_ = false;  // which marks an empty place
  unsigned places_log_ = 0;
  std::vector<std::uint64_t> table_;  // by hash, then the next free place
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_DISTINCT_VALUES_H_
