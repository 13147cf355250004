// Messages of protocol buffers, made field by field, so that each of them can be wrong.
#ifndef ESPALIER_TESTS_SUPPORT_PROTO_BYTES_H_
#define ESPALIER_TESTS_SUPPORT_PROTO_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::testing {

inline std::string proto_varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 0x7F; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
/// A field that is a number.
inline std::string proto_number(std::uint32_t field, std::uint64_t value) {
  return proto_varint(std::uint64_t{field} << 3) + proto_varint(value);
}
/// A field that is a text, a message, or packed numbers.
inline std::string proto_bytes(std::uint32_t field, std::string_view contents) {
  return proto_varint(std::uint64_t{field} << 3 | 2) + proto_varint(contents.size()) +
         std::string(contents);
}
/// A field of 4 or 8 bytes.
template <class T>
std::string proto_fixed(std::uint32_t field, T value) {
  static_assert(sizeof value == 4 || sizeof value == 8);
  return proto_varint(std::uint64_t{field} << 3 | (sizeof value == 4 ? 5 : 1)) +
         std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_PROTO_BYTES_H_
