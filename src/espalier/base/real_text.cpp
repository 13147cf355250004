#include "espalier/base/real_text.h"

#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <rapidjson/writer.h>

#include "espalier/base/ascii.h"

namespace espalier {
namespace {

// Not rapidjson::StringBuffer: that computes with a null pointer while it is empty.
struct TextStream {
  using Ch = char;
  std::string text = {};

  void Put(char c) { text += c; }
  void Flush() {}
};

// A whole number of any size, and whether what was left of it is more than that.
class LongNumber {
 public:
  bool is_zero() const { return words_.empty(); }

  void multiply_and_add(std::uint32_t factor, std::uint32_t digit) {
    std::uint64_t carry = digit;
    for (std::uint32_t& word : words_) {
      carry += std::uint64_t{word} * factor;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry > 0) words_.push_back(static_cast<std::uint32_t>(carry));
  }

  void shift_left(std::size_t words) { words_.insert(words_.begin(), words, 0); }

  void divide(std::uint32_t divisor) {
    std::uint64_t rest = 0;
    for (std::size_t i = words_.size(); i-- > 0;) {
      rest = (rest << 32) + words_[i];
      words_[i] = static_cast<std::uint32_t>(rest / divisor);
      rest %= divisor;
    }
    has_more_ = has_more_ || rest > 0;
  }

  void add_more() { has_more_ = true; }

  // The nearest double to the number times 2^exponent; halfway, the even one.
  double rounded(int exponent) const {
    constexpr int kDigits = std::numeric_limits<double>::digits;
    constexpr int kLeast = std::numeric_limits<double>::min_exponent - kDigits;  // of a bit
    int end = static_cast<int>(words_.size()) * 32;
    while (!bit(end - 1)) --end;
    const int first = std::max({end - kDigits, kLeast - exponent, 0});
    std::uint64_t number = 0;
    for (int i = end; i-- > first;) number = 2 * number + (bit(i) ? 1 : 0);
    bool has_more = has_more_;
    for (int i = 0; i < first - 1 && !has_more; ++i) has_more = bit(i);
    if (bit(first - 1) && (has_more || number % 2 == 1)) ++number;
    return std::ldexp(static_cast<double>(number), exponent + first);
  }

 private:
  bool bit(int at) const {
    const auto word = static_cast<std::size_t>(at / 32);
    return at >= 0 && word < words_.size() && (words_[word] >> (at % 32)) % 2 == 1;
  }

  std::vector<std::uint32_t> words_;  // the lowest one first
  bool has_more_ = false;
};

// The digits behind "e", or 0. Of more than any text has, it only counts that they are.
std::int64_t exponent_in(const char* text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (*text != 'e' && *text != 'E') return 0;
  ++text;
  const bool is_negative = *text == '-';
  if (is_negative || *text == '+') ++text;
  std::int64_t exponent = 0;
  for (; is_digit(*text); ++text) exponent = std::min(exponent * 10 + (*text - '0'), kMost);
  return is_negative ? -exponent : exponent;
}

}  // namespace

double parse_real(const char* digits) {
#ifdef __EMSCRIPTEN__
  return parse_real_in_little_code(digits);
#else
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(digits, nullptr, kPlain);
#endif
}

double parse_real_in_little_code(const char* digits) {
  // No number halfway between two doubles has more.
  constexpr int kMostDigits = 768;
  constexpr int kMostExponent = 310;
  constexpr int kLeastExponent = -330;
  const double sign = *digits == '-' ? -1 : 1;
  if (*digits == '-') ++digits;
  LongNumber number;
  std::int64_t exponent = 0;  // of the last digit
  int count = 0;
  bool is_fraction = false;
  for (; is_digit(*digits) || (*digits == '.' && !is_fraction); ++digits) {
    if (*digits == '.') {
      is_fraction = true;
      continue;
    }
    if (count == kMostDigits) {
      if (*digits != '0') number.add_more();
      if (!is_fraction) ++exponent;
      continue;
    }
    number.multiply_and_add(10, static_cast<std::uint32_t>(*digits - '0'));
    if (!number.is_zero()) ++count;
    if (is_fraction) --exponent;
  }
  exponent += exponent_in(digits);
  if (number.is_zero() || exponent + count < kLeastExponent) return sign * 0.0;
  if (exponent + count > kMostExponent) return sign * std::numeric_limits<double>::infinity();
  for (; exponent > 0; --exponent) number.multiply_and_add(10, 0);
  // A quotient of at least 64 bits: 10^n has less than 3.4 n.
  const auto words = exponent == 0 ? 0 : static_cast<int>(-exponent * 34 / 320 + 3);
  number.shift_left(static_cast<std::size_t>(words));
  for (; exponent <= -9; exponent += 9) number.divide(1'000'000'000);
  for (; exponent < 0; ++exponent) number.divide(10);
  return sign * number.rounded(-32 * words);
}

// Not std::to_chars(): the library of Emscripten has it for integers alone.
std::string print_real(double value) {
  TextStream stream;
  rapidjson::Writer<TextStream> writer(stream);
  writer.Double(value);
  return std::move(stream.text);
}

std::string print_number(double value) {
  std::string text = print_real(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace espalier
