// The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding/): fields
// that each say their number and how long they are. What they mean is for the readers of formats.
#ifndef ESPALIER_FOREIGN_COMMON_PROTOBUF_H_
#define ESPALIER_FOREIGN_COMMON_PROTOBUF_H_

#include <cstddef>
#include <cstdint>

#include "espalier/bytes.h"

namespace espalier {

/// The types of fields. The numbers are those of the files; groups (3 and 4) are not read.
enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field.
struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  /// Of a number, its value or its bits; 0 of kBytes.
  std::uint64_t value = 0;
  /// Where its contents begin, after its number and its length, and how many bytes they have.
  std::size_t begin = 0;
  std::uint64_t length = 0;
};

enum class WireResult : std::uint8_t {
  kField,
  /// The bytes end within the field's number, its length or its value.
  kCut,
  /// A number 0 or above 2^29 - 1, a group, a type that does not exist, or a number of more than 64
  /// bits.
  kBad,
};

/// As read_wire_field(), for any field.
WireResult read_any_wire_field(ByteSpan bytes, std::size_t& at, WireField& field);

/// Reads the field at `at` and moves `at` past its contents if it is a number, and to their
/// beginning if it is kBytes: they may lie beyond the end of `bytes`, so that a reader can go over
/// those that it does not need. `at` stays where it was unless the result is kField.
inline WireResult read_wire_field(ByteSpan bytes, std::size_t& at, WireField& field) {
  // Most have a number below 16, and a length below 128 or a value below it.
  if (bytes.size() - at >= 2) {
    const auto tag = std::to_integer<std::uint32_t>(bytes[at]);
    const auto next = std::to_integer<std::uint32_t>(bytes[at + 1]);
    const auto type = static_cast<WireType>(tag & 7);
    if (tag >= 8 && tag < 0x80 && next < 0x80) {
      if (type == WireType::kBytes) {
        field = {.number = tag >> 3, .type = type, .begin = at + 2, .length = next};
        at += 2;
        return WireResult::kField;
      }
      if (type == WireType::kVarint) {
        field = {.number = tag >> 3, .type = type, .value = next, .begin = at + 1, .length = 1};
        at += 2;
        return WireResult::kField;
      }
    }
  }
  return read_any_wire_field(bytes, at, field);
}

/// Goes through the fields of a message whose bytes are all there.
///
///   WireMessage message(bytes);
///   while (const WireField* field = message.next()) ...
///   if (message.is_bad()) return ...
class WireMessage {
 public:
  explicit WireMessage(ByteSpan bytes) : bytes_(bytes) {}

  /// The next field, whose contents lie in the message; null at the end, and where it is bad.
  const WireField* next();
  /// Whether it ended with a field that is cut off or no field.
  bool is_bad() const { return is_bad_; }
  /// Where the next field begins, or the bad one, counted from the beginning of the message.
  std::size_t at() const { return at_; }
  /// What a field of kBytes has, or the bytes of a number.
  ByteSpan contents(const WireField& field) const {
    return bytes_.subspan(field.begin, static_cast<std::size_t>(field.length));
  }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
  WireField field_;
  bool is_bad_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_PROTOBUF_H_
