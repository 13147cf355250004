// Numbers in groups of seven bits, low group first (LEB128), as protocol buffers, LevelDB's tables
// and OCDBT have them.
#ifndef ESPALIER_FOREIGN_COMMON_VARINT_H_
#define ESPALIER_FOREIGN_COMMON_VARINT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "espalier/bytes.h"

namespace espalier {

/// Bytes of the longest one.
inline constexpr std::size_t kMaxVarintBytes = 10;

/// The number at `at`, which moves past it. Nothing, and `at` stays, if `bytes` end within it or it
/// has more than 64 bits. Zeros at the end are no error, as other readers take them, too.
constexpr std::optional<std::uint64_t> read_varint(ByteSpan bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kMaxVarintBytes && i < bytes.size() - at; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at + i]);
    // The tenth byte has the last bit.
    if (i + 1 == kMaxVarintBytes && byte > 1) return std::nullopt;
    value |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      at += i + 1;
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_VARINT_H_
