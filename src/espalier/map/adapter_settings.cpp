#include "espalier/map/adapter_settings.h"

#include <cmath>
#include <cstdint>

#include "espalier/base/json_tree.h"
#include "espalier/base/real_text.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

std::optional<double> setting_number(JsonRef value) {
  if (const auto integer = value.int64()) return static_cast<double>(*integer);
  if (const auto integer = value.uint64()) return static_cast<double>(*integer);
  return value.real();
}

// For messages.
std::string setting_text(JsonRef value) {
  if (const auto text = value.text()) return in_quotes(*text);
  if (const auto truth = value.boolean()) return *truth ? "true" : "false";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  const auto number = setting_number(value);
  if (!number) return "null";
  return std::isfinite(*number) ? print_number(*number) : "too large a number";
}

class SettingsReader {
 public:
  std::optional<double> alpha(const std::string& word, JsonRef value) {
    const auto number = setting_number(value);
    if (number && std::isfinite(*number) && *number > 0) return number;
    wrong(word, value, "a finite number above 0");
    return std::nullopt;
  }

  std::optional<bool> truth(JsonRef config, const std::string& word) {
    const auto value = config.member(word);
    if (!value || value->is_null()) return std::nullopt;
    const auto truth = value->boolean();
    if (!truth) wrong('"' + word + '"', *value, "true or false");
    return truth;
  }

  void wrong(const std::string& word, JsonRef value, const std::string& wanted) {
    if (!problem.empty()) return;
    problem = word + " of the configuration is " + setting_text(value) + ", and not " + wanted;
  }

  std::string problem;
};

}  // namespace

AdapterSettings adapter_settings_in(JsonRef config) {
  AdapterSettings settings;
  if (!config.is_object()) return settings;
  SettingsReader read;
  if (const auto alpha = config.member("lora_alpha"); alpha && !alpha->is_null()) {
    settings.alpha = read.alpha("\"lora_alpha\"", *alpha);
  }
  settings.is_rank_stabilized = read.truth(config, "use_rslora");
  settings.is_weight_transposed = read.truth(config, "fan_in_fan_out");
  if (const auto pattern = config.member("alpha_pattern"); pattern && !pattern->is_null()) {
    if (!pattern->is_object()) read.wrong("\"alpha_pattern\"", *pattern, "an object");
    settings.alphas.emplace();
    for (const auto& [name, value] : pattern->members()) {
      const auto alpha = read.alpha(in_quotes(name) + " in \"alpha_pattern\"", value);
      if (alpha) settings.alphas->emplace_back(std::string(name), *alpha);
    }
  }
  settings.problem = std::move(read.problem);
  return settings;
}

Result<AdapterSettings> adapter_settings(const std::string& json) {
  constexpr std::uint32_t kMaxDepth = 32;
  const auto tree = JsonTree::parse(json, kMaxDepth);
  if (!tree) return propagate(tree);
  return adapter_settings_in(tree->root());
}

AdapterSettings either(AdapterSettings first, AdapterSettings second) {
  if (!first.alpha) first.alpha = second.alpha;
  if (!first.is_rank_stabilized) first.is_rank_stabilized = second.is_rank_stabilized;
  if (!first.is_weight_transposed) first.is_weight_transposed = second.is_weight_transposed;
  if (!first.alphas) first.alphas = std::move(second.alphas);
  if (first.problem.empty()) first.problem = std::move(second.problem);
  if (!first.made) first.made = std::move(second.made);
  return first;
}

void NameEnds::add(std::string_view name, std::size_t number) {
  for (std::size_t node = 0;;) {
    const auto [rest, segment] = parted(name);
    const auto [next, is_new] = children_.emplace(std::pair(node, segment), numbers_.size());
    if (is_new) numbers_.emplace_back();
    node = next->second;
    if (!rest) {
      numbers_[node] = number;
      return;
    }
    name = *rest;
  }
}

std::pair<std::optional<std::string_view>, std::string_view> NameEnds::parted(
    std::string_view name) const {
  const std::size_t end = name.rfind(separator_);
  if (end == std::string_view::npos) return {std::nullopt, name};
  return {name.substr(0, end), name.substr(end + 1)};
}

}  // namespace espalier
