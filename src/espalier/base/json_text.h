// Writes JSON text, byte for byte as the safetensors reference library does.
#ifndef ESPALIER_BASE_JSON_TEXT_H_
#define ESPALIER_BASE_JSON_TEXT_H_

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace espalier {

/// Appends `text`, which must be UTF-8, as a JSON string. Escapes only quotes, backslashes and
/// characters below U+0020, in their short form or as \u00xx.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out += text.substr(plain, i - plain);
    plain = i + 1;
    out += '\\';
    switch (byte) {
      case '\b':
        out += 'b';
        break;
      case '\t':
        out += 't';
        break;
      case '\n':
        out += 'n';
        break;
      case '\f':
        out += 'f';
        break;
      case '\r':
        out += 'r';
        break;
      case '"':
      case '\\':
        out += text[i];
        break;
      default:
        out += "u00";
        out += kHex[byte >> 4];
        out += kHex[byte & 0xF];
    }
  }
  out += text.substr(plain);
  out += '"';
}

/// Appends `number` in decimal.
template <std::integral T>
void append_number(std::string& out, T number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

/// Appends `numbers` as a JSON array.
template <class Range>
void append_json_array(std::string& out, const Range& numbers) {
  out += '[';
  bool first = true;
  for (const auto number : numbers) {
    if (!first) out += ',';
    first = false;
    append_number(out, number);
  }
  out += ']';
}

}  // namespace espalier

#endif  // ESPALIER_BASE_JSON_TEXT_H_
