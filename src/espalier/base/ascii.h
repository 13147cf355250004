// Classes of ASCII characters, in any locale.
#ifndef ESPALIER_BASE_ASCII_H_
#define ESPALIER_BASE_ASCII_H_

#include <algorithm>
#include <string_view>

namespace espalier {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A letter or '_': what an identifier begins with.
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Whether `text` is `small`, which has no capitals, in letters of any case.
inline bool is_in_any_case(std::string_view text, std::string_view small) {
  return std::equal(text.begin(), text.end(), small.begin(), small.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

/// Whether it begins so.
inline bool begins_in_any_case(std::string_view text, std::string_view small) {
  return is_in_any_case(text.substr(0, small.size()), small);
}

/// "name_1", but not "1name" or "".
constexpr bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace espalier

#endif  // ESPALIER_BASE_ASCII_H_
