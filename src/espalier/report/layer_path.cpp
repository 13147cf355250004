#include "espalier/report/layer_path.h"

#include <algorithm>
#include <cstddef>

namespace espalier {
namespace {

constexpr std::string_view kSeparators = "/.";

// "3", and "~23", which is the text "3".
bool is_number(std::string_view segment) {
  if (segment.substr(0, 2) == "~2") segment.remove_prefix(2);
  return !segment.empty() &&
         std::all_of(segment.begin(), segment.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string_view layer_of(std::string_view path) {
  const std::size_t last = path.find_last_of(kSeparators);
  if (last == std::string_view::npos) return {};
  const std::string_view parent = path.substr(0, last);
  std::string_view layer = parent;
  while (!layer.empty()) {
    const std::size_t before = layer.find_last_of(kSeparators);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (is_number(layer.substr(begin))) return layer;
    layer = layer.substr(0, begin == 0 ? 0 : before);
  }
  return parent;
}

}  // namespace espalier
