// Transposes a matrix of small elements that lies in larger ones.
#ifndef ESPALIER_MAP_TRANSPOSE_H_
#define ESPALIER_MAP_TRANSPOSE_H_

#include <cstddef>
#include <cstdint>

namespace espalier {

/// Whether transpose() takes elements of this many bytes: 1, 2, 4 and 8.
constexpr bool can_transpose(std::uint64_t bytes) {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/// Copies `rows` times `columns` elements of `bytes` bytes each. Element (i, k) is at
/// `from + k * from_step + i * bytes` and goes to `to + i * to_step + k * bytes`: what follows each
/// other in the source goes to different rows of the target. Steps are in bytes.
void transpose(std::uint64_t bytes, const std::byte* from, std::int64_t from_step, std::byte* to,
               std::int64_t to_step, std::uint64_t rows, std::uint64_t columns);

}  // namespace espalier

#endif  // ESPALIER_MAP_TRANSPOSE_H_
