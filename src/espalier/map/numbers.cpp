#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "espalier/base/json_tree.h"
#include "espalier/key_map.h"
#include "espalier/map/map_error.h"
#include "espalier/map/map_words.h"

namespace espalier {
namespace {

// NaN for what is there and no number: as if it were missing, a map could take another size for it.
// kCountMark behind the word asks for the number of members.
std::optional<double> number_in(const JsonTree& json, std::string_view word) {
  JsonRef at = json.root();
  const bool counts = word.ends_with(kCountMark);
  if (counts) word.remove_suffix(1);
  for (;;) {
    const std::size_t end = word.find('.');
    if (!at.is_object()) return std::nullopt;
    // A key may have dots of its own: "alpha_pattern.layers.0.q_proj" is a member of
    // "alpha_pattern".
    const auto whole = at.member(word);
    const auto member = whole ? whole : at.member(word.substr(0, end));
    if (!member) return std::nullopt;
    at = *member;
    if (whole) break;
    word.remove_prefix(end + 1);
  }
  if (const auto integer = at.int64()) return static_cast<double>(*integer);
  if (const auto truth = at.boolean()) return *truth ? 1 : 0;
  if (at.is_null()) return std::nullopt;
  if (counts && (at.is_array() || at.is_object())) return static_cast<double>(at.size());
  return at.real().value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Result<std::function<std::optional<double>(const std::string& word)>> numbers_of(std::string json) {
  constexpr std::uint32_t kMaxDepth = 32;
  const auto text = std::make_shared<const std::string>(std::move(json));
  auto parsed = JsonTree::parse(*text, kMaxDepth);
  if (!parsed) return propagate(parsed);
  const auto tree = std::make_shared<const JsonTree>(std::move(*parsed));
  return [text, tree](const std::string& word) { return number_in(*tree, word); };
}

std::function<std::optional<double>(const std::string& word)> either(
    std::function<std::optional<double>(const std::string& word)> first,
    std::function<std::optional<double>(const std::string& word)> second) {
  return [first = std::move(first), second = std::move(second)](const std::string& word) {
    const auto number = first(word);
    return number ? number : second(word);
  };
}

Result<void> set_numbers(const std::map<std::string, double>& numbers, MapPlanOptions& plan) {
  for (const auto& [word, value] : numbers) {
    if (!std::isfinite(value)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the number of " + in_quotes(word) + " is not finite");
    }
    if (const auto size = as_size(value)) {
      plan.sizes[word] = *size;
    } else {
      plan.numbers[word] = value;
    }
  }
  return {};
}

}  // namespace espalier
