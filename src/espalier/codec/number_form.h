// Numbers that a foreign file stores in another form than ours.
#ifndef ESPALIER_CODEC_NUMBER_FORM_H_
#define ESPALIER_CODEC_NUMBER_FORM_H_

#include <cstdint>

#include "espalier/base/bytes.h"

namespace espalier {

/// How stored numbers differ from the elements that they stand for. A complex element is two
/// numbers: real and imaginary part.
struct NumberForm {
  enum class Negation : std::uint8_t { kNone, kInteger, kFloat };

  /// Bytes of one number: 1, 2, 4 or 8.
  std::uint8_t width = 1;
  /// Whether the bytes of each number stand in reverse order.
  bool is_swapped = false;
  /// Whether each number is to be negated: in two's complement, or by its sign bit. The sign bit
  /// changes for 0 and NaN too, as IEEE 754's negate says.
  Negation negation = Negation::kNone;
  /// Whether every second number is to be negated by its sign bit.
  bool is_conjugated = false;

  bool is_plain() const { return !is_swapped && negation == Negation::kNone && !is_conjugated; }
};

/// Turns stored numbers into elements, in place. `bytes` begins with a whole element and ends with
/// one.
void restore_numbers(const NumberForm& form, MutableByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_CODEC_NUMBER_FORM_H_
