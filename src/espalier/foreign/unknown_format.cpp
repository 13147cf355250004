#include "espalier/foreign/unknown_format.h"

#include <algorithm>
#include <cstddef>

#include "espalier/foreign/formats.h"

namespace espalier {

std::string unknown_format(std::string_view what) {
  std::string text = "no format that the library reads (";
  const auto formats = all_formats();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    // NumPy's two formats have one title.
    const auto has_title = [&](const FormatInfo* each) { return each->title == formats[i]->title; };
    if (std::any_of(formats.begin(), formats.begin() + i, has_title)) continue;
    if (i > 0) text += ", ";
    text += formats[i]->title;
  }
  text += "); ";
  text += what;
  return text;
}

}  // namespace espalier
