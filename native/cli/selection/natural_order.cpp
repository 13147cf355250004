#include "cli/selection/natural_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "espalier/base/ascii.h"

namespace espalier::cli {
namespace {

// Takes the digits at the front of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

bool comes_before(const KeyView& a, const KeyView& b) {
  if (a.is_int || b.is_int) return a < b;
  return compare_naturally(a.text, b.text) < 0;
}

void rank(const NodeRef& node, std::vector<std::uint32_t>& ranks, std::uint32_t& next) {
  ranks[node.number()] = next++;
  std::vector<std::uint32_t> children(node.size());
  std::iota(children.begin(), children.end(), 0u);
  // Lists are in order as they are.
  if (is_container(node.kind()) && has_keys(node.kind())) {
    std::sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
      return comes_before(node.key(a), node.key(b));
    });
  }
  for (const std::uint32_t i : children) rank(node.child(i), ranks, next);
}

}  // namespace

std::strong_ordering compare_naturally(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const std::string_view number_a = take_number(rest_a);
      const std::string_view number_b = take_number(rest_b);
      if (number_a.size() != number_b.size()) return number_a.size() <=> number_b.size();
      if (const int order = number_a.compare(number_b); order != 0) return order <=> 0;
      continue;
    }
    const auto byte_a = static_cast<unsigned char>(rest_a.front());
    const auto byte_b = static_cast<unsigned char>(rest_b.front());
    if (byte_a != byte_b) return byte_a <=> byte_b;
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (rest_a.empty() != rest_b.empty()) return rest_b.empty() <=> rest_a.empty();
  return a.compare(b) <=> 0;
}

std::vector<std::uint32_t> natural_ranks(const NodeRef& root) {
  std::vector<std::uint32_t> ranks(root.catalog().tables().nodes.size());
  std::uint32_t next = 0;
  rank(root, ranks, next);
  return ranks;
}

}  // namespace espalier::cli
