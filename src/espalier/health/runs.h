// Stretches of a tensor in which one element is repeated.
#ifndef ESPALIER_HEALTH_RUNS_H_
#define ESPALIER_HEALTH_RUNS_H_

#include <cstddef>
#include <cstdint>

#include "espalier/bytes.h"

namespace espalier {

/// Runs of one bit pattern, each kLeastRunBytes or longer: what a file that was cut off or not
/// written has.
struct Runs {
  std::uint64_t count = 0;
  std::uint64_t elements = 0;  // of all of them
  /// The longest, and the first of these.
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  /// Whether all bits of its elements are 0.
  bool is_zero = false;
};

inline constexpr std::size_t kLeastRunBytes = 4096;

/// Takes elements in order and finds their runs. Not thread-safe.
class RunFinder {
 public:
  /// `width` is the size of an element in bytes: 1, 2, 4 or 8.
  explicit RunFinder(std::size_t width) : width_(width), least_(kLeastRunBytes / width) {}

  /// Adds whole elements.
  void add(ByteSpan packed);
  Runs runs() const;

 private:
  template <class Bits>
  void find(ByteSpan packed);
  static void record(Runs& runs, std::uint64_t begin, std::uint64_t size, bool is_zero);

  std::size_t width_;
  std::uint64_t least_;
  std::uint64_t elements_ = 0;  // so far
  std::uint64_t begin_ = 0;     // of the run that the last element is in
  std::uint64_t value_ = 0;
  Runs runs_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_RUNS_H_
