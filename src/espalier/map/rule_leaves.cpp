#include "espalier/map/rule_leaves.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/base/merge_sort.h"
#include "espalier/map/key_map_parts.h"

namespace espalier {
namespace {

// A name of a rule that leaves may fit.
struct Entry {
  std::uint32_t rule;
  std::uint32_t tensor;
  std::uint32_t name;
  const NamePattern* pattern;
  std::size_t words;
};

// The names of all active rules, in their order. Those without captures are looked up: a map may
// have a rule for each of thousands of tensors.
class Entries {
 public:
  explicit Entries(const Planning& planning) {
    const std::vector<Rule>& rules = planning.map.parts().rules;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const Rule& rule = rules[i];
      if (!is_active(rule, planning.options.reverse)) continue;
      const auto tensors = tensors_of(rule.side(!planning.options.reverse));
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (tensors[t]->is_looked_up || tensors[t]->kind != TensorTerm::Kind::kTensor) continue;
        for (std::size_t n = 0; n < tensors[t]->names.size(); ++n) {
          add({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(t),
               static_cast<std::uint32_t>(n), &tensors[t]->names[n].pattern, rule.words.size()});
        }
      }
    }
  }

  // Those that a name may fit, in their order, until `use` fails.
  template <class Use>
  Result<void> of(const std::string& name, const Use& use) const {
    const auto found = literal_.find(name);
    const std::span<const std::uint32_t> literal =
        found != literal_.end() ? found->second : std::span<const std::uint32_t>();
    std::size_t next = 0;
    for (const std::uint32_t number : captures_) {
      for (; next < literal.size() && literal[next] < number; ++next) {
        if (auto ok = use(all_[literal[next]]); !ok) return ok;
      }
      if (auto ok = use(all_[number]); !ok) return ok;
    }
    for (; next < literal.size(); ++next) {
      if (auto ok = use(all_[literal[next]]); !ok) return ok;
    }
    return {};
  }

 private:
  void add(const Entry& entry) {
    const auto number = static_cast<std::uint32_t>(all_.size());
    all_.push_back(entry);
    std::string literal;
    for (const NamePattern::Item& item : entry.pattern->items()) {
      if (item.capture) return captures_.push_back(number);
      literal += item.literal;
    }
    literal_[std::move(literal)].push_back(number);
  }

  std::vector<Entry> all_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> literal_;  // by name
  std::vector<std::uint32_t> captures_;
};

Result<void> match_leaf(Planning& planning, std::uint32_t leaf, const Entries& entries) {
  const std::string& name = planning.leaves[leaf].name;
  if (!planning.numbers_by_name.emplace(name, leaf).second) {
    return fail(ErrorCode::kNameCollision,
                "two tensors are called " + in_quotes(name) +
                    "; give inputs different labels, or read names as paths");
  }
  const char separator = planning.map.parts().side(!planning.options.reverse).separator();
  std::uint32_t& taken = planning.taken[leaf];
  CaptureValues values;
  return entries.of(name, [&](const Entry& entry) -> Result<void> {
    values.assign(entry.words, std::nullopt);
    if (!entry.pattern->match(name, separator, values)) return {};
    if (taken != MapTarget::kKept) {
      return fail(ErrorCode::kMapAmbiguous, in_quotes(name) + " is taken by rule " +
                                                std::to_string(taken + 1) + " and by rule " +
                                                std::to_string(entry.rule + 1) +
                                                "; make one of them more exact");
    }
    taken = entry.rule;
    planning.found[entry.rule].push_back({leaf, entry.tensor, entry.name, values});
    return {};
  });
}

void look_up(const PlannedRule& rule, Instance& instance) {
  for (std::size_t t = 0; t < rule.reads.size(); ++t) {
    if (!rule.reads[t]->is_looked_up) continue;
    for (std::size_t n = 0; n < rule.reads[t]->names.size(); ++n) {
      const auto number = rule.planning.numbers_by_name.find(
          rule.reads[t]->names[n].pattern.write(instance.values));
      if (number == rule.planning.numbers_by_name.end()) continue;
      instance.tensors[t][{}].push_back({static_cast<std::uint32_t>(n), number->second});
      rule.planning.taken[number->second] = rule.number;
    }
  }
}

tl::unexpected<Error> incomplete(const PlannedRule& rule, const Instance& instance,
                                 std::size_t tensor, std::size_t name) {
  const auto missing = rule.reads[tensor]->names[name].pattern.write(filled(instance.values));
  return rule.failed(ErrorCode::kMapIncomplete,
                     "found " + first_name(rule, instance) + " but not " + in_quotes(missing));
}

}  // namespace

bool is_active(const Rule& rule, bool reverse) {
  return rule.direction == Rule::Direction::kBoth ||
         (rule.direction == Rule::Direction::kRightToLeft) == reverse;
}

CaptureValues filled(CaptureValues values) {
  for (auto& value : values) {
    if (!value) value = CaptureValue{};
  }
  return values;
}

Result<void> match_leaves(Planning& planning) {
  planning.found.resize(planning.map.parts().rules.size());
  planning.taken.assign(planning.leaves.size(), MapTarget::kKept);
  const Entries entries(planning);
  for (std::uint32_t i = 0; i < planning.leaves.size(); ++i) {
    if (auto ok = match_leaf(planning, i, entries); !ok) return ok;
  }
  return {};
}

std::string first_name(const PlannedRule& rule, const Instance& instance) {
  for (const Candidates& candidates : instance.tensors) {
    if (!candidates.empty()) return in_quotes(rule.leaf(first_leaf(candidates)).name);
  }
  return {};
}

std::map<std::vector<CaptureValue>, Instance> instances_of(const PlannedRule& rule) {
  std::vector<std::size_t> shared;
  for (std::size_t word = 0; word < rule.rule.words.size(); ++word) {
    if (names_have(rule.read, word) && names_have(rule.written, word)) shared.push_back(word);
  }
  std::vector<std::vector<std::size_t>> stacked;
  for (const TensorTerm* tensor : rule.reads) stacked.push_back(rule.words_of_read(*tensor));
  std::map<std::vector<CaptureValue>, Instance> instances;
  for (const FoundLeaf& each : rule.planning.found[rule.number]) {
    std::vector<CaptureValue> key;
    key.reserve(shared.size());
    for (const std::size_t word : shared) {
      key.push_back(each.values[word].value_or(CaptureValue{}));
    }
    Instance& instance = instances[std::move(key)];
    if (instance.tensors.empty()) {
      instance.tensors.resize(rule.reads.size());
      instance.values = each.values;
    }
    Index index;
    for (const std::size_t word : stacked[each.tensor]) {
      index.push_back(static_cast<std::uint64_t>(each.values[word]->number));
    }
    instance.tensors[each.tensor][std::move(index)].push_back({each.name, each.leaf});
  }
  return instances;
}

Result<void> complete_instance(const PlannedRule& rule, Instance& instance) {
  look_up(rule, instance);
  for (std::size_t t = 0; t < rule.reads.size(); ++t) {
    const TensorTerm& tensor = *rule.reads[t];
    Candidates& candidates = instance.tensors[t];
    if (candidates.empty() && tensor.kind == TensorTerm::Kind::kTensor &&
        !rule.planning.are_adapted()) {
      return incomplete(rule, instance, t, 0);
    }
    // A tied parameter has one state, under one name.
    for (std::size_t n = 0; n < tensor.names.size() && !rule.planning.options.slot; ++n) {
      if (tensor.names[n].is_optional) continue;
      for (const auto& [index, all] : candidates) {
        const bool is_there = std::any_of(all.begin(), all.end(),
                                          [&](const Candidate& each) { return each.name == n; });
        if (!is_there) return incomplete(rule, instance, t, n);
      }
    }
    for (auto& [index, all] : candidates) {
      sort_stably(all, [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
    }
  }
  return {};
}

}  // namespace espalier
