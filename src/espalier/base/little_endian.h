// Little-endian loads and stores that work at any alignment.
#ifndef ESPALIER_BASE_LITTLE_ENDIAN_H_
#define ESPALIER_BASE_LITTLE_ENDIAN_H_

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace espalier {

/// Reads a `T` at `p`, which needs no alignment. The caller has checked that the bytes are there.
template <class T>
T load_le(const std::byte* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

/// Writes `value` at `p`, which needs no alignment. The caller has checked that there is room.
template <class T>
void store_le(std::byte* p, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(p, &value, sizeof(T));
}

}  // namespace espalier

#endif  // ESPALIER_BASE_LITTLE_ENDIAN_H_
