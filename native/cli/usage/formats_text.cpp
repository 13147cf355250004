#include "cli/usage/formats_text.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "espalier/foreign/formats.h"
#include "files/save/save_format.h"

namespace espalier::cli {
namespace {

bool is_written(const FormatInfo& format) {
  return std::any_of(kSaveFormats.begin(), kSaveFormats.end(),
                     [&](SaveFormat written) { return save_format_name(written) == format.name; });
}

std::string names_of(const FormatInfo& format) {
  std::vector<std::string> names;
  for (const FormatEnding& ending : format.endings) {
    names.push_back("*" + std::string(ending.text));
  }
  std::string text = fmt::format("{}", fmt::join(names, " "));
  if (!format.part_ending.empty()) text += fmt::format(" with *{}", format.part_ending);
  return text;
}

}  // namespace

std::string formats_text() {
  constexpr std::string_view kLine = "{:<12}  {:<44}  {}\n";
  std::string text = fmt::format(kLine, "format", "names of files", "written");
  for (const FormatInfo* const format : all_formats()) {
    fmt::format_to(std::back_inserter(text), kLine, format->name, names_of(*format),
                   is_written(*format) ? "yes" : "no");
  }
  return text;
}

}  // namespace espalier::cli
