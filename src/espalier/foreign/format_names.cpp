#include "espalier/foreign/format_names.h"

#include <algorithm>
#include <string>

#include "espalier/base/stars.h"

namespace espalier {

bool is_named_as(const FormatInfo& format, std::string_view name) {
  return std::any_of(format.endings.begin(), format.endings.end(), [&](const FormatEnding& ending) {
    return name == ending.text ||
           (!name.starts_with('.') && matches_stars("*" + std::string(ending.text), name));
  });
}

}  // namespace espalier
