// Parses the Range field of a request (RFC 9110, section 14).
#ifndef ESPALIER_SERVE_BYTE_RANGE_H_
#define ESPALIER_SERVE_BYTE_RANGE_H_

#include <cstdint>
#include <string_view>

namespace espalier::serve {

/// The bytes to send: all, `length` bytes at `offset`, or none because the range is beyond the end.
struct ByteRange {
  enum class Kind : std::uint8_t { kWhole, kPart, kUnsatisfiable };

  Kind kind = Kind::kWhole;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // at least 1 for kPart

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Parses `field`, a value of Range, for a resource of `size` bytes. A part lies within the
/// resource. The RFC lets a server ignore ranges, so other units, wrong syntax, several ranges at
/// once (overlapping ones would multiply the work) and an empty field are kWhole.
ByteRange choose_range(std::string_view field, std::uint64_t size);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_BYTE_RANGE_H_
