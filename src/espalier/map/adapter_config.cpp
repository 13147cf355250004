#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "espalier/base/json_text.h"
#include "espalier/base/real_text.h"
#include "espalier/map/adapter.h"

namespace espalier {

AdapterScale common_scale(const MapAdapter& adapter) {
  std::vector<std::pair<AdapterScale, std::size_t>> counts;
  for (const MapAdapted& module : adapter.modules) {
    const AdapterScale scale{module.rank, module.alpha};
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& each) { return each.first == scale; });
    if (found == counts.end()) {
      counts.emplace_back(scale, 1);
    } else {
      ++found->second;
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? AdapterScale{} : most->first;
}

std::string print_alpha(double alpha) {
  std::string text = print_real(alpha);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string adapter_config(const MapAdapter& adapter) {
  const AdapterScale common = common_scale(adapter);
  std::string json = "{\"r\":" + std::to_string(common.rank);
  if (common.alpha) json += ",\"lora_alpha\":" + print_alpha(*common.alpha);
  json += ",\"use_rslora\":";
  json += adapter.is_rank_stabilized ? "true" : "false";
  std::string ranks;
  std::string alphas;
  std::string modules;
  const auto append = [](std::string& list, std::string_view name, const std::string& value) {
    if (!list.empty()) list += ',';
    append_json_string(list, name);
    list += value;
  };
  for (const MapAdapted& each : adapter.modules) {
    append(modules, each.module, "");
    if (each.rank != common.rank) append(ranks, each.module, ':' + std::to_string(each.rank));
    if (each.alpha && each.alpha != common.alpha) {
      append(alphas, each.module, ':' + print_alpha(*each.alpha));
    }
  }
  return json + ",\"rank_pattern\":{" + ranks + "},\"alpha_pattern\":{" + alphas +
         "},\"target_modules\":[" + modules + "]}";
}

std::function<std::optional<double>(const std::string& word)> adapter_numbers(
    MapAdapter adapter, std::function<std::optional<double>(const std::string& word)> others) {
  std::map<std::string, double, std::less<>> alphas;
  for (const MapAdapted& each : adapter.modules) {
    if (each.alpha) alphas.emplace(each.module, *each.alpha);
  }
  return [common = common_scale(adapter).alpha, is_stabilized = adapter.is_rank_stabilized,
          alphas = std::move(alphas),
          others = std::move(others)](const std::string& word) -> std::optional<double> {
    constexpr std::string_view kPattern = "alpha_pattern";
    if (word == "lora_alpha") return common;
    if (word == "use_rslora") return is_stabilized ? 1 : 0;
    if (word == kPattern) return 0;
    if (word.starts_with(kPattern) && word.size() > kPattern.size()) {
      const auto found = alphas.find(std::string_view(word).substr(kPattern.size() + 1));
      return found == alphas.end() ? std::nullopt : std::optional(found->second);
    }
    // The weights are no longer those of the configuration.
    if (word == "fan_in_fan_out") return std::nullopt;
    return others ? others(word) : std::nullopt;
  };
}

}  // namespace espalier
