#include "espalier/foreign/unknown_format.h"

#include "espalier/foreign/formats.h"

namespace espalier {

std::string unknown_format(std::string_view what) {
  std::string text(no_known_format());
  text += what.empty() ? mend_of_unknown() : what;
  return text;
}

}  // namespace espalier
