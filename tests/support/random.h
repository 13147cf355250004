// A small random generator that gives the same numbers on every platform.
#ifndef ESPALIER_TESTS_SUPPORT_RANDOM_H_
#define ESPALIER_TESTS_SUPPORT_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace espalier::testing {

/// SplitMix64. The standard library's distributions differ between platforms, so there are none
/// here.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// A number below `end`, which must not be 0.
  std::uint64_t below(std::uint64_t end) { return bits() % end; }
  /// A number from `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// True once in `n` times.
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(from.size()))];
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(i))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_RANDOM_H_
