#include "espalier/map/adapter_names.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "espalier/map/lift.h"
#include "espalier/map/map_error.h"
#include "espalier/map/rule.h"

namespace espalier {
namespace {

// Names of one side, and what they are of: those of both sides that are of the same are a pair.
struct KindOfNames {
  std::string_view kind;
  std::string_view names;
};

struct Framework {
  std::string_view name;
  std::array<KindOfNames, 3> names;
};

constexpr std::string_view kFactors = "factors";
constexpr std::string_view kVectors = "vectors";

// A state_dict has ".default", the name of the adapter, which a file lacks. An embedding's weight
// has a row for each input.
constexpr Framework kFrameworks[] = {
    {"peft",
     {{{kFactors, "base_model.model.{module}.lora_{A|B}{||.default}.weight"},
       {kVectors, "base_model.model.{module}.lora_magnitude_vector{||.default.weight}"},
       {"embeddings",
        "base_model.model.{module}.lora_embedding_{A|B}{||.default} [r i] [o r] [i o]"}}}},
    {"torchtune",
     {{{kFactors, "{module}.lora_{a|b}.weight"}, {kVectors, "{module}.magnitude"}, {}}}},
    {"mlx", {{{kFactors, "{module}.lora_{a|b} [i r] [r o]"}, {kVectors, "{module}.m"}, {}}}},
};

tl::unexpected<Error> bad_names(std::string_view text, const std::string& why) {
  return invalid_map("\"lora\": " + in_quotes(text) + ' ' + why);
}

// The content of the first {A|B}, and where it stands.
std::optional<std::pair<std::size_t, std::size_t>> find_choice(std::string_view text) {
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::size_t end = text.find('}', at);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    if (inside.find(':') == std::string_view::npos && !inside.starts_with('|') &&
        std::count(inside.begin(), inside.end(), '|') == 1) {
      return std::pair(at, end);
    }
  }
  return std::nullopt;
}

// Reads "[r i] [o r] [i o]".
Result<void> read_axes(std::string_view text, std::string_view axes, AdapterNames& names) {
  std::size_t number = 0;
  while (!axes.empty()) {
    const std::string_view one = axes.substr(0, 5);
    constexpr std::string_view kStraight[] = {"[r i]", "[o r]", "[o i]"};
    constexpr std::string_view kTransposed[] = {"[i r]", "[r o]", "[i o]"};
    const bool is_known = number < 3 && (one == kStraight[number] || one == kTransposed[number]);
    if (!is_known) {
      return bad_names(text,
                       "has other axes than [r i] or [i r] of the factor A, [o r] or [r o] of B, "
                       "and perhaps [o i] or [i o] of the weight");
    }
    const bool is_transposed = one == kTransposed[number];
    if (number == 0) names.is_a_transposed = is_transposed;
    if (number == 1) names.is_b_transposed = is_transposed;
    if (number == 2) names.is_weight_transposed = is_transposed;
    ++number;
    axes.remove_prefix(5);
    while (axes.starts_with(' ')) axes.remove_prefix(1);
  }
  if (number != 1) return {};
  return bad_names(text, "has axes of the factor A, and none of B");
}

Result<AdapterNames> parse_names(std::string_view text, char separator) {
  AdapterNames names;
  const std::size_t bracket = text.find(" [");
  std::string pattern(text.substr(0, bracket));
  if (bracket != std::string_view::npos) {
    if (auto ok = read_axes(text, text.substr(bracket + 1), names); !ok) return propagate(ok);
  }
  const std::size_t module = pattern.find("{module}");
  if (module == std::string::npos) {
    return bad_names(text,
                     "is neither a pair of names with {module} nor a framework: there are peft, "
                     "torchtune and mlx");
  }
  if (pattern.find("{module}", module + 1) != std::string::npos || pattern.ends_with('?')) {
    return bad_names(text, "is no name with {module} and {A|B} alone");
  }
  names.prefix = pattern.substr(0, module);
  pattern.replace(module, 8, "{module...}");
  const auto choice = find_choice(pattern);
  if (choice) pattern.insert(choice->first + 1, "factor:");
  RuleContext context;
  context.left_separator = separator;
  context.right_separator = separator;
  const auto rule = parse_rule(pattern + std::string(kAlongArrow) + pattern, context);
  if (!rule) return bad_names(text, "is no name: " + rule.error().message);
  const std::vector<Part>& parts = rule->side(true);
  const auto part = parts.size() == 1 ? as_plain(parts.front()) : std::nullopt;
  if (!part || !part->steps.empty() || part->tensor->names.size() != 1 || part->tensor->axes() ||
      part->tensor->as || part->tensor->names.front().is_optional ||
      part->tensor->kind != TensorTerm::Kind::kTensor || rule->words.size() != (choice ? 2u : 1u) ||
      names.prefix.find('{') != std::string::npos) {
    return bad_names(text, "is no name with {module} and {A|B} alone");
  }
  names.pattern = part->tensor->names.front().pattern;
  names.words = rule->words.size();
  for (std::size_t word = 0; word < names.words; ++word) {
    if (rule->words[word] == "module") {
      names.module = word;
    } else {
      names.factor = word;
    }
  }
  return names;
}

// The names of one side by what they are of.
Result<std::vector<std::pair<std::string_view, AdapterNames>>> parse_side(std::string_view text,
                                                                          char separator) {
  std::vector<std::pair<std::string_view, AdapterNames>> all;
  for (const Framework& framework : kFrameworks) {
    if (framework.name != text) continue;
    for (const KindOfNames& each : framework.names) {
      if (each.kind.empty()) continue;
      auto names = parse_names(each.names, separator);
      if (!names) return propagate(names);
      names->are_peft = framework.name == "peft";
      all.emplace_back(each.kind, std::move(*names));
    }
    return all;
  }
  auto names = parse_names(text, separator);
  if (!names) return propagate(names);
  const std::string_view kind = names->factor ? kFactors : kVectors;
  all.emplace_back(kind, std::move(*names));
  return all;
}

}  // namespace

std::string AdapterNames::write(const std::string& of_module, AdapterPart part) const {
  CaptureValues values(words);
  values[module] = CaptureValue{0, of_module};
  if (factor) values[*factor] = CaptureValue{part == AdapterPart::kB ? 1 : 0, {}};
  return pattern.write(values);
}

Result<std::vector<AdapterPlace>> parse_adapter_places(const std::vector<std::string>& texts,
                                                       bool reverse, char read_separator,
                                                       char write_separator) {
  std::vector<AdapterPlace> places;
  for (const std::string& text : texts) {
    const std::size_t arrow = text.find(kAlongArrow);
    const std::string_view left = std::string_view(text).substr(0, arrow);
    const std::string_view right = arrow == std::string::npos
                                       ? left
                                       : std::string_view(text).substr(arrow + kAlongArrow.size());
    auto read = parse_side(reverse ? right : left, read_separator);
    if (!read) return propagate(read);
    auto write = parse_side(reverse ? left : right, write_separator);
    if (!write) return propagate(write);
    for (auto& [kind, names] : *read) {
      AdapterPlace place{text, std::move(names), std::nullopt};
      for (const auto& [other, theirs] : *write) {
        if (other == kind) place.write = theirs;
      }
      if (!place.write && read->size() == 1) {
        return bad_names(text, "has {A|B} on one side only");
      }
      places.push_back(std::move(place));
    }
  }
  // What has a name on both sides counts first.
  std::stable_partition(places.begin(), places.end(),
                        [](const AdapterPlace& place) { return place.write.has_value(); });
  return places;
}

}  // namespace espalier
