// Converts numbers that a foreign file stores in another form.
#ifndef ESPALIER_CODEC_NUMBER_FORM_H_
#define ESPALIER_CODEC_NUMBER_FORM_H_

#include <cstdint>

#include "espalier/bytes.h"

namespace espalier {

/// How stored numbers differ from the elements. A complex element is two numbers: real and
/// imaginary part.
struct NumberForm {
  enum class Negation : std::uint8_t { kNone, kInteger, kFloat };

  /// Bytes of one number: 1, 2, 4 or 8.
  std::uint8_t width = 1;
  /// Whether the bytes of each number are reversed.
  bool is_swapped = false;
  /// Whether to negate each number: integers in two's complement, floats by the sign bit. The sign
  /// bit also changes for 0 and NaN, as in IEEE 754's negate.
  Negation negation = Negation::kNone;
  /// Whether to negate every second number by its sign bit (complex conjugate).
  bool is_conjugated = false;

  bool is_plain() const { return !is_swapped && negation == Negation::kNone && !is_conjugated; }
};

/// Converts stored numbers to elements, in place. `bytes` contains whole elements.
void restore_numbers(const NumberForm& form, MutableByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_CODEC_NUMBER_FORM_H_
