// Errors in the text of a key map.
#ifndef ESPALIER_MAP_MAP_ERROR_H_
#define ESPALIER_MAP_MAP_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/error.h"

namespace espalier {

inline tl::unexpected<Error> invalid_map(std::string_view message) {
  return fail(ErrorCode::kMapInvalid, message);
}

/// Of what a rule makes of leaves; the first rule has number 0.
inline tl::unexpected<Error> fail_rule(std::uint32_t rule, ErrorCode code,
                                       const std::string& message) {
  return fail(code, "rule " + std::to_string(rule + 1) + ": " + message);
}

inline std::string in_quotes(std::string_view text) { return '\'' + std::string(text) + '\''; }

/// A shape, "[2 3]".
inline std::string printed(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ' ';
    text += std::to_string(shape[i]);
  }
  return text + ']';
}

}  // namespace espalier

#endif  // ESPALIER_MAP_MAP_ERROR_H_
