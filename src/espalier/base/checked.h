// Arithmetic on untrusted sizes: it reports overflow where plain C++ would wrap.
#ifndef ESPALIER_BASE_CHECKED_H_
#define ESPALIER_BASE_CHECKED_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace espalier {

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  // A builtin of GCC and Clang: a check by division is many times slower.
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The next multiple of `alignment` (a power of two), or nullopt if that does not fit.
inline std::optional<std::uint64_t> checked_align(std::uint64_t value, std::uint64_t alignment) {
  const auto raised = checked_add(value, alignment - 1);
  if (!raised) return std::nullopt;
  return *raised & ~(alignment - 1);
}

/// Whether [offset, offset + length) lies inside [0, size). It subtracts, because a hostile
/// `offset + length` wraps around to a small number and passes an adding check.
constexpr bool range_fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return length <= size && offset <= size - length;
}

/// The one narrowing from file sizes to memory sizes: on a 32-bit host (wasm) a 5 GiB length would
/// otherwise silently become 1 GiB.
inline std::optional<std::size_t> narrow_size(std::uint64_t value) {
  if (value > std::numeric_limits<std::size_t>::max()) return std::nullopt;
  return static_cast<std::size_t>(value);
}

}  // namespace espalier

#endif  // ESPALIER_BASE_CHECKED_H_
