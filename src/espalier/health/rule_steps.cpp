#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// The share of a kind that may have counted otherwise.
constexpr std::size_t kOneOfSteps = 10;
// A parameter that is used now and then has a few steps less: one of so many.
constexpr double kOneOfCount = 100;

bool is_whole(double value) { return std::isfinite(value) && value == std::floor(value); }

std::string others_text(std::size_t count, double value) {
  return (count == 1 ? "another of its kind is " : grouped(count) + " others of its kind are ") +
         number_text(value);
}

}  // namespace

void judge_steps(const std::vector<Counter>& counters, Findings& found) {
  std::vector<Counter> all = counters;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Counter& counter) { return !is_whole(counter.value); }),
            all.end());
  std::vector<std::string_view> paths;
  paths.reserve(all.size());
  for (const Counter& counter : all) paths.emplace_back(counter.path);
  std::map<std::uint64_t, std::vector<const Counter*>> kinds;
  const std::vector<PathKind> kind_of = find_kinds(paths);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Numbers of one module are of several purposes.
    if (!kind_of[i].is_end_open) kinds[kind_of[i].id].push_back(&all[i]);
  }
  for (const auto& [kind, group] : kinds) {
    std::map<double, std::size_t> counts;
    for (const Counter* counter : group) ++counts[counter->value];
    if (counts.size() < 2) continue;
    const auto [usual, count] =
        *std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool are_steps = is_step_name(group.front()->path);
    const bool are_few = group.size() < kSiblings;
    if (are_few ? !are_steps
                : group.size() - count > std::max<std::size_t>(1, group.size() / kOneOfSteps)) {
      continue;
    }
    for (const Counter* counter : group) {
      if (counter->value == usual) continue;
      const bool is_near = std::abs(counter->value - usual) * kOneOfCount <= std::abs(usual);
      found.add(HealthRule::kUnequalSteps,
                is_near || are_few ? Severity::kNote : Severity::kWarning, counter->path,
                "is " + number_text(counter->value) + ", and " + others_text(count, usual));
    }
  }
}

}  // namespace espalier
