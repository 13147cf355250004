// Numbers that a key map computes from sizes: "1/sqrt(d)", "num_attention_heads / 2".
#ifndef ESPALIER_MAP_SCALAR_H_
#define ESPALIER_MAP_SCALAR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

/// An expression of numbers and words. Plain data.
struct Scalar {
  enum class Kind : std::uint8_t {
    kNumber,
    kWord,  // its value is looked up; dots lead into objects
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kSqrt,
    kBf16,  // rounded to the nearest bfloat16
  };
  Kind kind = Kind::kNumber;
  double number = 0;
  std::string word = {};
  /// One for a function, two for an operation.
  std::vector<Scalar> operands = {};
};

/// Parses an expression with + - * / ( ), sqrt and bf16. kMapInvalid, with a message that says what
/// is wrong there.
[[nodiscard]] Result<Scalar> parse_scalar(std::string_view text);

/// The text that parse_scalar() takes, with all parentheses.
std::string to_string(const Scalar& scalar);

/// Every word of the expression, in order.
std::vector<std::string> words_of(const Scalar& scalar);

/// The value, with those of the words; nothing if one is not known, or the result is not finite.
std::optional<double> evaluate(
    const Scalar& scalar, const std::function<std::optional<double>(const std::string&)>& value);

}  // namespace espalier

#endif  // ESPALIER_MAP_SCALAR_H_
