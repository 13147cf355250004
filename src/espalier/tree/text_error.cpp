#include "espalier/tree/text_error.h"

#include "espalier/base/utf8.h"

namespace espalier {

Error text_error(ErrorCode code, std::string_view text, std::size_t offset, const char* what) {
  std::string message = code == ErrorCode::kInvalidPattern ? "bad pattern" : "bad key path";
  message += " at character ";
  message += std::to_string(count_utf8_chars(text.substr(0, offset)) + 1);
  message += ": ";
  message += what;
  return {code, Error::kNoOffset, {}, std::move(message)};
}

}  // namespace espalier
