// Counts with a noun, for messages.
#ifndef ESPALIER_BASE_COUNTED_H_
#define ESPALIER_BASE_COUNTED_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

/// "1 byte", "2 bytes", "0 axes": a number with a noun. Pass the noun in the singular.
inline std::string counted(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + ' ';
  text += noun;
  if (count == 1) return text;
  if (noun.ends_with("axis")) {
    text[text.size() - 2] = 'e';
  } else {
    text += 's';
  }
  return text;
}

}  // namespace espalier

#endif  // ESPALIER_BASE_COUNTED_H_
