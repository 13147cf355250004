// Which bytes of a resource a request asks for: the field Range (RFC 9110, section 14).
#ifndef ESPALIER_SERVE_BYTE_RANGE_H_
#define ESPALIER_SERVE_BYTE_RANGE_H_

#include <cstdint>
#include <string_view>

namespace espalier::serve {

/// What to send: all of it, `length` bytes at `offset`, or nothing because there are no such bytes.
struct ByteRange {
  enum class Kind : std::uint8_t { kWhole, kPart, kUnsatisfiable };

  Kind kind = Kind::kWhole;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // at least 1 of a part

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// What the value `field` of Range asks of a resource of `size` bytes. A part lies within the
/// resource. As the RFC allows, a server may ignore what it does not understand, so other units,
/// wrong syntax and several ranges at once (of which overlapping ones would multiply the work) are
/// kWhole; so is an empty field.
ByteRange choose_range(std::string_view field, std::uint64_t size);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_BYTE_RANGE_H_
