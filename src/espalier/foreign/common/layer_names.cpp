#include "espalier/foreign/common/layer_names.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

bool is_number(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (name.size() == 1 || name[0] != '0');
}

bool shorter_or_less(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// "dense_12" is "dense" and "12"; "dense" has no number.
std::pair<std::string_view, std::string_view> split_number(std::string_view name) {
  const std::size_t at = name.rfind('_');
  if (at == name.npos || !is_number(name.substr(at + 1))) return {name, {}};
  return {name.substr(0, at), name.substr(at + 1)};
}

}  // namespace

bool order_numbers(std::vector<GroupPart>& parts) {
  if (!std::all_of(parts.begin(), parts.end(),
                   [](const GroupPart& part) { return is_number(part.key); })) {
    return false;
  }
  std::sort(parts.begin(), parts.end(),
            [](const GroupPart& a, const GroupPart& b) { return shorter_or_less(a.key, b.key); });
  return true;
}

bool name_layers(std::vector<GroupPart>& parts) {
  std::vector<std::string_view> names;
  bool has_layers = false;
  for (const GroupPart& part : parts) {
    names.push_back(part.layer.empty() ? part.key : part.layer);
    has_layers = has_layers || !part.layer.empty();
  }
  if (!has_layers) return false;
  std::sort(names.begin(), names.end());
  const bool are_distinct = std::adjacent_find(names.begin(), names.end()) == names.end();
  std::stable_sort(parts.begin(), parts.end(), [](const GroupPart& a, const GroupPart& b) {
    const auto [left, left_number] = split_number(a.key);
    const auto [right, right_number] = split_number(b.key);
    return left != right ? left < right : shorter_or_less(left_number, right_number);
  });
  // After the sort, which is by the names of the file.
  if (are_distinct) {
    for (GroupPart& part : parts) {
      if (!part.layer.empty()) part.key = part.layer;
    }
  }
  return true;
}

}  // namespace espalier
