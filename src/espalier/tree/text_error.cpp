#include "espalier/tree/text_error.h"

#include "espalier/base/utf8.h"

namespace espalier {

std::string beginning_of(std::string_view text) {
  constexpr std::size_t kMost = 200;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  // Not in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "[...]";
}

Error text_error(ErrorCode code, std::string_view text, std::size_t offset, const char* what) {
  std::string message = code == ErrorCode::kInvalidPattern ? "bad pattern" : "bad key path";
  message += " '";
  message += beginning_of(text);
  message += "' at character ";
  message += std::to_string(count_utf8_chars(text.substr(0, offset)) + 1);
  message += ": ";
  message += what;
  return {code, Error::kNoOffset, {}, std::move(message)};
}

}  // namespace espalier
