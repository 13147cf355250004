#include "espalier/tree/text_error.h"

#include "espalier/base/utf8.h"

namespace espalier {

Error text_error(ErrorCode code, std::string_view text, std::size_t offset, const char* what) {
  std::string message = code == ErrorCode::kInvalidPattern ? "bad pattern '" : "bad key path '";
  // The beginning of a long one, and no half of a character.
  constexpr std::size_t kMost = 200;
  std::size_t end = text.size();
  if (end > kMost) {
    end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  }
  message += text.substr(0, end);
  message += end < text.size() ? "[...]' at character " : "' at character ";
  message += std::to_string(count_utf8_chars(text.substr(0, offset)) + 1);
  message += ": ";
  message += what;
  return {code, Error::kNoOffset, {}, std::move(message)};
}

}  // namespace espalier
