// Strict UTF-8: finds the first error, decodes one character.
//
// Pure functions over bytes that the caller owns; safe to call from any thread.
#ifndef ESPALIER_BASE_UTF8_H_
#define ESPALIER_BASE_UTF8_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "espalier/bytes.h"

namespace espalier {

/// The offset where `text` stops being UTF-8, or nullopt if all of it is UTF-8. Everything before
/// the offset is well-formed. The byte there cannot lead a sequence, or leads one that is cut
/// short, overlong, a surrogate or above U+10FFFF.
///
/// Linear, and at memory speed on ASCII, because it runs over whole string pools of untrusted
/// files.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// The same over raw bytes.
inline std::optional<std::size_t> find_invalid_utf8(ByteSpan bytes) {
  return find_invalid_utf8(as_text(bytes));
}

/// One decoded character: a Unicode scalar value and the number of bytes it takes (1 to 4).
struct Utf8Char {
  char32_t code_point = 0;
  /// 0 if the bytes are not well-formed UTF-8; `code_point` is then unspecified.
  std::size_t length = 0;
};

/// Decodes the character that starts at `offset`, which must be less than `text.size()`. As strict
/// as `find_invalid_utf8`.
Utf8Char decode_utf8(std::string_view text, std::size_t offset);

/// The number of characters in `text`, which must be UTF-8. For messages: people count characters,
/// not bytes.
std::size_t count_utf8_chars(std::string_view text);

}  // namespace espalier

#endif  // ESPALIER_BASE_UTF8_H_
