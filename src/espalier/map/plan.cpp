#include "espalier/map/plan.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "espalier/base/merge_sort.h"
#include "espalier/map/instance_sizes.h"
#include "espalier/map/instance_targets.h"
#include "espalier/map/map_error.h"
#include "espalier/map/map_words.h"
#include "espalier/map/planning.h"
#include "espalier/map/rule_leaves.h"
#include "espalier/map/rule_targets.h"

namespace espalier {
namespace {

bool is_drop(const Rule& rule) { return rule.drops_left || rule.drops_right; }

// "lora" of "lora::a.b".
std::string_view label_of(std::string_view name) {
  const std::size_t end = name.find("::");
  return end == std::string_view::npos ? std::string_view() : name.substr(0, end);
}

// The numbers that words have in this rule, to compare with those of other rules.
void add_families(Planning& planning, const Rule& rule, std::uint32_t number,
                  const CaptureValues& values) {
  if (rule.is_optional) return;
  for (std::size_t word = 0; word < rule.words.size(); ++word) {
    if (!values[word] || !values[word]->text.empty()) continue;
    planning.families[rule.words[word]][number].insert(
        static_cast<std::uint64_t>(values[word]->number));
  }
}

// A word means one family of numbers, wherever it stands.
Result<void> check_families(const Planning& planning) {
  for (const auto& [word, by_rule] : planning.families) {
    const std::set<std::uint64_t>* first = nullptr;
    std::uint32_t first_rule = 0;
    for (const auto& [number, numbers] : by_rule) {
      const Rule& rule = planning.map.parts().rules[number];
      const auto at = std::find(rule.words.begin(), rule.words.end(), word);
      if (!is_plain_number(rule, static_cast<std::size_t>(at - rule.words.begin()))) continue;
      if (numbers.empty()) continue;
      if (*numbers.rbegin() - *numbers.begin() + 1 != numbers.size()) {
        std::uint64_t missing = *numbers.begin();
        while (numbers.contains(missing)) ++missing;
        return fail_rule(number, ErrorCode::kMapIncomplete,
                         '{' + word + "} has " + printed(numbers) + ": " + std::to_string(missing) +
                             " is missing");
      }
      const auto size = planning.sizes.find(word);
      if (size != planning.sizes.end() &&
          (size->second != numbers.size() || *numbers.begin() != 0)) {
        const auto origin = planning.origins.find(word);
        return fail_rule(number, ErrorCode::kMapIncomplete,
                         wrong_count(word, numbers, size->second, origin->second));
      }
      if (first == nullptr) {
        first = &numbers;
        first_rule = number;
      } else if (*first != numbers) {
        return fail_rule(number, ErrorCode::kMapIncomplete,
                         '{' + word + "} has " + printed(numbers) + ", and in rule " +
                             std::to_string(first_rule + 1) + " it has " + printed(*first) +
                             "; use another word, or put '?' before the rule if that is meant");
      }
    }
  }
  return {};
}

std::uint32_t first_source(const MapTarget& target) {
  if (target.source != MapPiece::kZeros) return target.source;
  std::uint32_t first = MapPiece::kZeros;
  for (const MapPiece& piece : target.pieces) first = std::min(first, piece.source);
  for (const MapTerm& term : target.terms) {
    for (const MapOperand& operand : term.operands) first = std::min(first, operand.source);
  }
  return first;
}

Result<void> check_names(std::span<const MapTarget> targets, std::span<const MapLeaf> leaves) {
  std::unordered_map<std::string_view, std::uint32_t> makers;
  makers.reserve(targets.size());
  const auto from = [&](const MapTarget& target) {
    const std::uint32_t source = first_source(target);
    return (source == MapPiece::kZeros ? std::string("zeros") : in_quotes(leaves[source].name)) +
           (target.rule == MapTarget::kKept ? std::string(" (no rule)")
                                            : " (rule " + std::to_string(target.rule + 1) + ')');
  };
  for (std::uint32_t number = 0; number < targets.size(); ++number) {
    const MapTarget& target = targets[number];
    for (std::size_t i = 0; i <= target.tied.size(); ++i) {
      const std::string& name = i == 0 ? target.name : target.tied[i - 1];
      const auto [other, is_new] = makers.emplace(name, number);
      if (is_new) continue;
      return fail(ErrorCode::kNameCollision,
                  from(targets[other->second]) + " and " + from(target) + " both make " +
                      in_quotes(name) + "; drop one of them with a rule, or give it another name");
    }
  }
  return {};
}

}  // namespace

std::string_view work_name(MapWork work) {
  switch (work) {
    case MapWork::kRename:
      return "rename";
    case MapWork::kBlockGather:
      return "block gather";
    case MapWork::kStrided:
      return "strided";
    case MapWork::kArithmetic:
      return "arithmetic";
  }
  return {};
}

std::vector<std::uint32_t> MapTarget::sources() const {
  std::vector<std::uint32_t> found;
  std::unordered_set<std::uint32_t> known;
  const auto add = [&](std::uint32_t leaf) {
    if (leaf != MapPiece::kZeros && known.insert(leaf).second) found.push_back(leaf);
  };
  add(source);
  for (const MapPiece& piece : pieces) add(piece.source);
  for (const MapTerm& term : terms) {
    for (const MapOperand& operand : term.operands) add(operand.source);
  }
  return found;
}

std::string inverse_problem(const Rule& rule, bool reverse) {
  if (is_drop(rule)) return {};
  return is_active(rule, !reverse) ? std::string() : "it goes one way";
}

// Makes one plan: takes the rules one after the other, and checks that they are about all leaves.
class MapPlanner {
 public:
  MapPlanner(const KeyMap& map, std::vector<MapLeaf> leaves, const MapPlanOptions& options)
      : map_(map), options_(options) {
    plan_.leaves_ = std::move(leaves);
  }

  Result<MapPlan> plan() {
    if (auto ok = check_directions(); !ok) return propagate(ok);
    Planning planning{map_, options_, plan_.leaves_};
    planning.rules.resize(map_.parts().rules.size());
    if (auto ok = find_numbers(planning); !ok) return propagate(ok);
    if (auto ok = match_leaves(planning); !ok) return propagate(ok);
    for (std::size_t i = 0; i < map_.parts().rules.size(); ++i) {
      const Rule& rule = map_.parts().rules[i];
      if (!is_active(rule, options_.reverse)) continue;
      if (auto ok = plan_rule(planning, rule, static_cast<std::uint32_t>(i)); !ok) {
        return propagate(ok);
      }
    }
    if (has_all()) {
      if (auto ok = check_families(planning); !ok) return propagate(ok);
    }
    plan_.targets_ = std::move(planning.targets);
    plan_.equals_ = std::move(planning.equals);
    plan_.losses_ = std::move(planning.losses);
    plan_.rules_ = std::move(planning.rules);
    plan_.guessed_ = std::move(planning.guessed);
    plan_.notes_ = std::move(planning.notes);
    if (auto ok = plan_rest(planning); !ok) return propagate(ok);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  bool has_all() const { return options_.parameters == MapParameters::kAll; }

  // A rule that goes the other way only is left out by wish alone.
  Result<void> check_directions() const {
    if (options_.partial) return {};
    std::string rules;
    for (std::size_t i = 0; i < map_.parts().rules.size(); ++i) {
      const Rule& rule = map_.parts().rules[i];
      if (is_active(rule, options_.reverse) || is_drop(rule)) continue;
      rules += (rules.empty() ? "" : ", ") + std::to_string(i + 1);
    }
    if (rules.empty()) return {};
    return fail(ErrorCode::kMapNotInvertible,
                "the map cannot be used in this direction: rule " + rules +
                    " goes the other way only; --partial leaves such rules out");
  }

  Result<void> plan_rule(Planning& planning, const Rule& rule, std::uint32_t number) {
    const std::vector<FoundLeaf>& found = planning.found[number];
    planning.rules[number].sources = found.size();
    if (options_.reverse ? rule.drops_left : rule.drops_right) {
      for (const FoundLeaf& each : found) plan_.dropped_.push_back({each.leaf, number});
      return {};
    }
    if (is_drop(rule)) return {};
    if (found.empty()) {
      if (rule.is_optional || options_.slot || !has_all()) return {};
      return fail_rule(number, ErrorCode::kMapIncomplete,
                       std::string("no tensor fits its ") + (options_.reverse ? "right" : "left") +
                           " side: " + rule.text +
                           "; check the names ({x} is a whole number, {x*} any text), and --at if "
                           "they stand below another one, or put '?' before the rule if it may be "
                           "unused");
    }
    for (const FoundLeaf& each : found) add_families(planning, rule, number, each.values);
    const PlannedRule planned(planning, rule, number);
    const TensorTerm& first = *planned.reads.front();
    if (!first.axes() && first.names.size() == 1 && !has_copies(first)) {
      for (const FoundLeaf& each : found) {
        if (auto ok = add_rename(planned, each.leaf, each.values); !ok) return ok;
      }
      return {};
    }
    for (auto& [key, instance] : instances_of(planned)) {
      if (auto ok = plan_instance(planned, instance); !ok) return ok;
    }
    return {};
  }

  Result<void> plan_rest(const Planning& planning) {
    const MapRest rest = options_.rest.value_or(map_.parts().rest);
    // What a labelled input has besides goes nowhere, if no rule writes that label: it is not kept
    // in a file of its own.
    std::set<std::string_view> labels;
    for (const MapTarget& target : plan_.targets_) labels.insert(label_of(target.name));
    std::uint64_t count = 0;
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      if (planning.taken[i] != MapTarget::kKept) continue;
      const MapLeaf& leaf = plan_.leaves_[i];
      if (rest == MapRest::kDrop) {
        plan_.dropped_.push_back({i, MapTarget::kKept});
        continue;
      }
      const std::string_view label = label_of(leaf.name);
      if (rest == MapRest::kError ||
          (!label.empty() && !labels.empty() && !labels.contains(label))) {
        if (count++ == 0) first = i;
        continue;
      }
      MapTarget target;
      target.name = leaf.name;
      target.rule = MapTarget::kKept;
      target.source = i;
      target.dtype = leaf.dtype;
      target.shape = leaf.shape;
      ++plan_.kept_;
      plan_.targets_.push_back(std::move(target));
    }
    if (count == 0) return {};
    return fail(ErrorCode::kMapUnmatched,
                "no rule takes " + in_quotes(plan_.leaves_[first].name) +
                    (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string()) +
                    "; add a rule, or \"rest\": \"keep\" or \"drop\"");
  }

  const KeyMap& map_;
  const MapPlanOptions& options_;
  MapPlan plan_;
};

Result<MapPlan> MapPlan::make(const KeyMap& map, std::vector<MapLeaf> leaves,
                              const MapPlanOptions& options) {
  return MapPlanner(map, std::move(leaves), options).plan();
}

Result<MapPlan> MapPlan::merged(MapPlan plan) {
  sort_stably(plan.targets_, [](const MapTarget& a, const MapTarget& b) {
    return first_source(a) < first_source(b);
  });
  if (auto ok = check_names(plan.targets_, plan.leaves_); !ok) return propagate(ok);
  return plan;
}

}  // namespace espalier
