// Messages whose fields come once, unless they are lists.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_WIRE_H_
#define ESPALIER_FOREIGN_TENSORFLOW_WIRE_H_

#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/foreign/common/protobuf.h"

namespace espalier {

/// What became of a field.
enum class FieldUse : std::uint8_t { kTaken, kUnknown, kBad };

/// Calls `take(field, contents)` for each field of a message. `lists` has a bit for the number of
/// each field that may come again: of others, protocol buffers would take the last or merge them,
/// and programs differ. Counts fields that are unknown. False for what is no message, or a field
/// that is bad.
template <class Take>
bool read_fields(ByteSpan bytes, std::uint64_t lists, std::uint64_t& unknown, const Take& take) {
  std::uint64_t seen = 0;
  WireMessage message(bytes);
  while (const WireField* field = message.next()) {
    const FieldUse use = take(*field, message.contents(*field));
    if (use == FieldUse::kBad) return false;
    if (use == FieldUse::kUnknown) {
      ++unknown;
      continue;
    }
    const std::uint64_t bit = std::uint64_t{1} << (field->number & 63);
    if ((seen & bit & ~lists) != 0) return false;
    seen |= bit;
  }
  return !message.is_bad();
}

/// Takes a number, or refuses a field of another type.
template <class T>
FieldUse take_number(const WireField& field, T& number, WireType type = WireType::kVarint) {
  if (field.type != type) return FieldUse::kBad;
  number = static_cast<T>(field.value);
  return FieldUse::kTaken;
}

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_WIRE_H_
