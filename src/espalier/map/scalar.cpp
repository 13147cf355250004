#include "espalier/map/scalar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/real_text.h"
#include "espalier/tree/elements.h"
#include "espalier/tree/encode_elements.h"

namespace espalier {
namespace {

constexpr std::size_t kMaxScalarDepth = 16;
constexpr std::size_t kMaxNodes = 256;

bool is_word(char c) { return is_letter(c) || is_digit(c); }

// Expressions within each other; a number or a word is none.
std::size_t depth_of(const Scalar& scalar) {
  std::size_t deepest = 0;
  for (const Scalar& operand : scalar.operands) deepest = std::max(deepest, depth_of(operand));
  return scalar.operands.empty() ? 0 : deepest + 1;
}

class ScalarParser {
 public:
  explicit ScalarParser(std::string_view text) : text_(text) {}

  Result<Scalar> parse() {
    auto scalar = sum(0);
    if (!scalar) return scalar;
    skip_spaces();
    if (at_ < text_.size()) return bad();
    // Its own text has parentheses around all that is joined, and must be readable again.
    if (depth_of(*scalar) > kMaxScalarDepth) return too_deep();
    return scalar;
  }

 private:
  tl::unexpected<Error> too_deep() const {
    return fail(ErrorCode::kMapInvalid, "'" + std::string(text_) + "' nests more than " +
                                            std::to_string(kMaxScalarDepth) +
                                            " expressions; give a part of it a name, as a size");
  }
  tl::unexpected<Error> bad() const {
    return fail(ErrorCode::kMapInvalid,
                "'" + std::string(text_) + "' is no expression: " +
                    (at_ == text_.size() ? std::string("something is missing at the end")
                                         : std::string("unexpected '") + text_[at_] + "'"));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Scalar> sum(std::size_t depth) {
    auto left = product(depth);
    while (left) {
      const bool adds = take('+');
      if (!adds && !take('-')) return left;
      left = joined(adds ? Scalar::Kind::kAdd : Scalar::Kind::kSubtract, std::move(*left),
                    product(depth));
    }
    return left;
  }

  Result<Scalar> product(std::size_t depth) {
    auto left = factor(depth);
    while (left) {
      const bool multiplies = take('*');
      if (!multiplies && !take('/')) return left;
      left = joined(multiplies ? Scalar::Kind::kMultiply : Scalar::Kind::kDivide, std::move(*left),
                    factor(depth));
    }
    return left;
  }

  Result<Scalar> joined(Scalar::Kind kind, Scalar left, Result<Scalar> right) const {
    if (!right) return right;
    if (nodes_ > kMaxNodes) return bad();
    Scalar scalar;
    scalar.kind = kind;
    scalar.operands.push_back(std::move(left));
    scalar.operands.push_back(std::move(*right));
    return scalar;
  }

  // Recurses as deep as parentheses stand in each other.
  Result<Scalar> factor(std::size_t depth) {
    ++nodes_;
    skip_spaces();
    if (depth > kMaxScalarDepth) return too_deep();
    if (take('(')) return closed(sum(depth + 1));
    Scalar scalar;
    if (at_ < text_.size() && is_digit(text_[at_])) {
      const std::string text = digits();
      scalar.number = parse_real(text.c_str());
      if (std::isfinite(scalar.number)) return scalar;
      return fail(ErrorCode::kMapInvalid, text + " is too large a number");
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || (text_[at_] == '.' && at_ > begin))) ++at_;
    if (at_ == begin) return bad();
    scalar.kind = Scalar::Kind::kWord;
    scalar.word = text_.substr(begin, at_ - begin);
    if (scalar.word != "sqrt" && scalar.word != "bf16") return scalar;
    if (!take('(')) return bad();
    auto operand = closed(sum(depth + 1));
    if (!operand) return operand;
    scalar.kind = scalar.word == "sqrt" ? Scalar::Kind::kSqrt : Scalar::Kind::kBf16;
    scalar.word.clear();
    scalar.operands.push_back(std::move(*operand));
    return scalar;
  }

  // The text of a number, as JSON writes it: "16", "0.5", "1e-3".
  std::string digits() {
    const std::size_t begin = at_;
    const auto take_digits = [&] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    take_digits();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      take_digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      take_digits();
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<Scalar> closed(Result<Scalar> scalar) {
    if (scalar && !take(')')) return bad();
    return scalar;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t nodes_ = 0;
};

// The nearest bfloat16; halfway, the even one.
double rounded_to_bf16(double value) {
  std::array<std::byte, 2> bytes = {};
  encode_elements(DType::kBF16, std::span(&value, 1), bytes);
  decode_elements<double>(DType::kBF16, bytes, 0, std::span(&value, 1));
  return value;
}

void add_words(const Scalar& scalar, std::vector<std::string>& words) {
  if (scalar.kind == Scalar::Kind::kWord) words.push_back(scalar.word);
  for (const Scalar& operand : scalar.operands) add_words(operand, words);
}

}  // namespace

Result<Scalar> parse_scalar(std::string_view text) { return ScalarParser(text).parse(); }

std::string to_string(const Scalar& scalar) {
  const auto both = [&](const char* sign) {
    return '(' + to_string(scalar.operands[0]) + sign + to_string(scalar.operands[1]) + ')';
  };
  switch (scalar.kind) {
    case Scalar::Kind::kNumber:
      return print_real(scalar.number);
    case Scalar::Kind::kWord:
      return scalar.word;
    case Scalar::Kind::kAdd:
      return both("+");
    case Scalar::Kind::kSubtract:
      return both("-");
    case Scalar::Kind::kMultiply:
      return both("*");
    case Scalar::Kind::kDivide:
      return both("/");
    case Scalar::Kind::kSqrt:
      return "sqrt(" + to_string(scalar.operands[0]) + ')';
    case Scalar::Kind::kBf16:
      return "bf16(" + to_string(scalar.operands[0]) + ')';
  }
  return {};
}

std::vector<std::string> words_of(const Scalar& scalar) {
  std::vector<std::string> words;
  add_words(scalar, words);
  return words;
}

std::optional<double> evaluate(
    const Scalar& scalar, const std::function<std::optional<double>(const std::string&)>& value) {
  std::vector<double> operands;
  for (const Scalar& operand : scalar.operands) {
    const auto known = evaluate(operand, value);
    if (!known) return std::nullopt;
    operands.push_back(*known);
  }
  std::optional<double> result;
  switch (scalar.kind) {
    case Scalar::Kind::kNumber:
      result = scalar.number;
      break;
    case Scalar::Kind::kWord:
      result = value(scalar.word);
      break;
    case Scalar::Kind::kAdd:
      result = operands[0] + operands[1];
      break;
    case Scalar::Kind::kSubtract:
      result = operands[0] - operands[1];
      break;
    case Scalar::Kind::kMultiply:
      result = operands[0] * operands[1];
      break;
    case Scalar::Kind::kDivide:
      // Not by zero, which is undefined in C++.
      if (operands[1] != 0) result = operands[0] / operands[1];
      break;
    case Scalar::Kind::kSqrt:
      if (operands[0] >= 0) result = std::sqrt(operands[0]);
      break;
    case Scalar::Kind::kBf16:
      // A double beyond a float is undefined to convert.
      if (std::abs(operands[0]) < 3e38) result = rounded_to_bf16(operands[0]);
      break;
  }
  if (result && !std::isfinite(*result)) return std::nullopt;
  return result;
}

}  // namespace espalier
