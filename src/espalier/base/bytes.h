// Byte spans, and little-endian loads and stores that work at any alignment.
#ifndef ESPALIER_BASE_BYTES_H_
#define ESPALIER_BASE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace espalier {

// The file is little-endian and its records are read in place. A big-endian port would have to swap
// the tables after copying them into the arena.
static_assert(std::endian::native == std::endian::little,
              "Espalier reads its little-endian tables in place and needs a little-endian machine");

/// Borrowed bytes, which must not change while they are read.
using ByteSpan = std::span<const std::byte>;
/// Borrowed writable bytes.
using MutableByteSpan = std::span<std::byte>;

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

/// The bits of `from` as a `To` of the same size: std::bit_cast, which Emscripten 3.1.6 does not
/// have.
template <class To, class From>
To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From> &&
                std::is_trivially_copyable_v<To>);
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline ByteSpan as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace espalier

#endif  // ESPALIER_BASE_BYTES_H_
