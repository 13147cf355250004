#include "espalier/foreign/unknown_format.h"

#include <algorithm>
#include <cstddef>

#include "espalier/foreign/formats.h"

namespace espalier {

namespace {

std::string_view mend() {
  return file_kinds().empty() ? "if it is a checkpoint of another format, which this program is "
                                "not built to open, convert it: espalier convert FILE NEW.espalier"
                              : "check that this is the right file and that its download is "
                                "complete";
}

}  // namespace

std::string unknown_format(std::string_view what) {
  std::string text = "no format that the library reads (";
  const auto formats = all_formats();
  if (file_kinds().empty()) {  // as in programs that link espalier::core
    text = "not an Espalier file";
  } else {
    for (std::size_t i = 0; i < formats.size(); ++i) {
      // NumPy's two formats have one title.
      const auto has_title = [&](const FormatInfo* each) {
        return each->title == formats[i]->title;
      };
      const auto before = formats.first(i);
      if (std::any_of(before.begin(), before.end(), has_title)) continue;
      if (i > 0) text += ", ";
      text += formats[i]->title;
    }
    text += ")";
  }
  text += "; ";
  text += what.empty() ? mend() : what;
  return text;
}

}  // namespace espalier
