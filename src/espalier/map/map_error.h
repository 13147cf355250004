// Errors in the text of a key map.
#ifndef ESPALIER_MAP_MAP_ERROR_H_
#define ESPALIER_MAP_MAP_ERROR_H_

#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/error.h"

namespace espalier {

inline tl::unexpected<Error> invalid_map(std::string message) {
  return fail(ErrorCode::kMapInvalid, std::move(message));
}

inline std::string in_quotes(std::string_view text) { return '\'' + std::string(text) + '\''; }

}  // namespace espalier

#endif  // ESPALIER_MAP_MAP_ERROR_H_
