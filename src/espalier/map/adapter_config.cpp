#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/base/json_text_writer.h"
#include "espalier/base/merge_sort.h"
#include "espalier/base/real_text.h"
#include "espalier/map/adapter.h"
#include "espalier/map/adapter_settings.h"

namespace espalier {

AdapterScale common_scale(const MapAdapter& adapter) {
  // Sorted: a hostile configuration has an alpha for each of a million modules.
  std::map<std::pair<std::uint64_t, std::optional<double>>, std::size_t> counts;
  AdapterScale most;
  std::size_t largest = 0;
  for (const MapAdapted& module : adapter.modules) ++counts[{module.rank, module.alpha}];
  for (const MapAdapted& module : adapter.modules) {
    const std::size_t count = counts.at({module.rank, module.alpha});
    if (count <= largest) continue;
    largest = count;
    most = {module.rank, module.alpha};
  }
  return most;
}

AdapterPatterns adapter_patterns(const MapAdapter& adapter) {
  const AdapterScale common = common_scale(adapter);
  AdapterPatterns patterns;
  NameEnds ranks('.');
  NameEnds alphas('.');
  for (std::size_t i = 0; i < adapter.modules.size(); ++i) {
    const MapAdapted& each = adapter.modules[i];
    if (each.rank != common.rank) ranks.add(each.module, i);
    if (each.alpha && each.alpha != common.alpha) alphas.add(each.module, i);
  }
  bool has_longer = false;
  for (const MapAdapted& each : adapter.modules) {
    bool has_rank = false;
    bool has_alpha = false;
    ranks.visit(each.module, [&](std::size_t, bool is_whole) {
      has_rank = true;
      has_longer = has_longer || !is_whole;
    });
    alphas.visit(each.module, [&](std::size_t, bool is_whole) {
      has_alpha = true;
      has_longer = has_longer || !is_whole;
    });
    if (has_rank) patterns.ranks.emplace_back(each.module, each.rank);
    if (has_alpha && each.alpha) patterns.alphas.emplace_back(each.module, *each.alpha);
  }
  if (!has_longer) return patterns;
  // The first key that fits counts.
  const auto is_longer = [](const auto& a, const auto& b) {
    return a.first.size() > b.first.size();
  };
  sort_stably(patterns.ranks, is_longer);
  sort_stably(patterns.alphas, is_longer);
  return patterns;
}

bool are_all_transposed(const MapAdapter& adapter) {
  const auto is_transposed = [](const MapAdapted& each) {
    return !each.are_columns.empty() && each.are_columns.front() &&
           std::is_sorted(each.are_columns.begin(), each.are_columns.end(),
                          [](bool a, bool b) { return a && !b; });
  };
  return !adapter.modules.empty() &&
         std::all_of(adapter.modules.begin(), adapter.modules.end(), is_transposed);
}

std::string adapter_config(const MapAdapter& adapter) {
  const AdapterScale common = common_scale(adapter);
  const AdapterPatterns patterns = adapter_patterns(adapter);
  JsonTextWriter json;
  json.begin_object();
  json.member("r", common.rank);
  if (common.alpha) {
    json.key("lora_alpha");
    json.raw(print_number(*common.alpha));
  }
  json.member("use_rslora", adapter.is_rank_stabilized);
  if (are_all_transposed(adapter)) json.member("fan_in_fan_out", true);
  json.key("rank_pattern");
  json.begin_object();
  for (const auto& [name, rank] : patterns.ranks) json.member(name, rank);
  json.end_object();
  json.key("alpha_pattern");
  json.begin_object();
  for (const auto& [name, alpha] : patterns.alphas) {
    json.key(name);
    json.raw(print_number(alpha));
  }
  json.end_object();
  json.key("target_modules");
  json.begin_array();
  for (const MapAdapted& each : adapter.modules) json.value(each.module);
  json.end_array();
  json.end_object();
  return std::move(json).take();
}

}  // namespace espalier
