// More about characters of ASCII: the functions of the C library depend on the locale.
#ifndef ESPALIER_HTTP_ASCII_H_
#define ESPALIER_HTTP_ASCII_H_

#include <string>
#include <string_view>

#include "espalier/base/ascii.h"

namespace espalier::http {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
constexpr bool is_control(char c) { return (c >= 0 && c < ' ') || c == 0x7F; }
constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// -1 for what is no digit.
constexpr int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_ASCII_H_
