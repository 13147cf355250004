// Texts in JSON, where other values count as none.
#ifndef ESPALIER_FOREIGN_COMMON_JSON_TEXT_H_
#define ESPALIER_FOREIGN_COMMON_JSON_TEXT_H_

#include <optional>
#include <string_view>

#include "espalier/base/json_tree.h"

namespace espalier {

/// A text, as of JsonRef::text(). Empty for another value, and for none.
inline std::string_view text_of(std::optional<JsonRef> json) {
  return json ? json->text().value_or(std::string_view()) : std::string_view();
}

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_JSON_TEXT_H_
