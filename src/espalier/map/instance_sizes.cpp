#include "espalier/map/instance_sizes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_words.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

// Finds the sizes of one instance.
class SizeFinder {
 public:
  SizeFinder(const PlannedRule& rule, const Instance& instance)
      : planning_(rule.planning),
        rule_(rule),
        instance_(instance),
        frame_{instance.values, rule.planning.sizes},
        origins_(rule.planning.origins) {}

  Result<Frame> find() {
    for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
      // What an adapter lacks has as many tensors as the others.
      if (instance_.tensors[t].empty()) continue;
      if (auto ok = count_family(t); !ok) return propagate(ok);
    }
    for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
      if (auto ok = find_axes(t); !ok) return propagate(ok);
    }
    for (Axes& axes : frame_.read_axes) axes = frame_.whole(axes);
    if (auto ok = solve_all(); !ok) return propagate(ok);
    for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
      if (auto ok = check_shapes(t); !ok) return propagate(ok);
    }
    add_families();
    return std::move(frame_);
  }

 private:
  const MapLeaf& source_of(std::size_t tensor) const {
    return rule_.leaf(first_leaf(instance_.tensors[tensor]));
  }

  // The words that number tensors: each from 0 on without a gap, and a tensor for every choice.
  Result<void> count_family(std::size_t tensor) {
    const auto words = rule_.words_of_read(*rule_.reads[tensor]);
    std::uint64_t combinations = 1;
    for (std::size_t k = 0; k < words.size(); ++k) {
      std::set<std::uint64_t> numbers;
      for (const auto& [index, all] : instance_.tensors[tensor]) numbers.insert(index[k]);
      const std::string& word = rule_.rule.words[words[k]];
      if (auto ok = planning_.are_adapted() ? count_adapted(word, numbers)
                                            : count_all(word, numbers, tensor);
          !ok) {
        return ok;
      }
      combinations *= numbers.size();
    }
    const std::size_t there = instance_.tensors[tensor].size();
    if (there >= combinations || planning_.are_adapted()) return {};
    return rule_.failed(ErrorCode::kMapIncomplete,
                        "of " + std::to_string(combinations) + " tensors like " +
                            in_quotes(source_of(tensor).name) + ", only " + std::to_string(there) +
                            " are there");
  }

  Result<void> count_all(const std::string& word, const std::set<std::uint64_t>& numbers,
                         std::size_t tensor) {
    std::uint64_t next = 0;
    for (const std::uint64_t number : numbers) {
      if (number != next) break;
      ++next;
    }
    if (next != numbers.size()) {
      return rule_.failed(
          ErrorCode::kMapIncomplete,
          '{' + word + "} has " + printed(numbers) + ": " + std::to_string(next) + " is missing");
    }
    const auto [known, is_new] = frame_.sizes.emplace(word, numbers.size());
    if (is_new || known->second == numbers.size()) return {};
    if (const auto origin = origins_.find(word); origin != origins_.end()) {
      return rule_.failed(ErrorCode::kMapIncomplete,
                          wrong_count(word, numbers, known->second, origin->second));
    }
    return rule_.failed(ErrorCode::kMapIncomplete,
                        '{' + word + "} has " + printed(numbers) + " here, and " +
                            std::to_string(known->second) + " elsewhere: see " +
                            in_quotes(source_of(tensor).name));
  }

  // An adapter may be of some layers or experts. Their number is that which is known, or that of
  // all that the adapter has, from 0 on without a gap.
  Result<void> count_adapted(const std::string& word, const std::set<std::uint64_t>& numbers) {
    if (const auto known = frame_.sizes.find(word); known != frame_.sizes.end()) {
      if (*numbers.rbegin() < known->second) return {};
      return rule_.failed(ErrorCode::kMapIncomplete,
                          '{' + word + "} has " + printed(numbers) + " here, and " +
                              std::to_string(known->second) + " elsewhere");
    }
    const std::set<std::uint64_t>& all = all_numbers(word);
    if (*all.rbegin() + 1 != all.size()) {
      return rule_.failed(ErrorCode::kMapUndetermined,
                          "the adapter has {" + word + "} " + printed(all) +
                              " alone, and how many its base has is not known; give it: --set " +
                              word + "=...");
    }
    frame_.sizes.emplace(word, all.size());
    std::uint64_t& guessed = planning_.guessed[word];
    guessed = std::max<std::uint64_t>(guessed, all.size());
    return {};
  }

  const std::set<std::uint64_t>& all_numbers(const std::string& word) {
    std::set<std::uint64_t>& all = planning_.numbers_by_word[{rule_.number, word}];
    if (!all.empty()) return all;
    const std::vector<Rule>& rules = planning_.map.parts().rules;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const auto at = std::find(rules[i].words.begin(), rules[i].words.end(), word);
      if (at == rules[i].words.end()) continue;
      const auto own = static_cast<std::size_t>(at - rules[i].words.begin());
      if (i != rule_.number && (rules[i].is_optional || !is_plain_number(rules[i], own))) continue;
      for (const FoundLeaf& each : planning_.found[i]) {
        if (!each.values[own] || !each.values[own]->text.empty()) continue;
        all.insert(static_cast<std::uint64_t>(each.values[own]->number));
      }
    }
    return all;
  }

  Result<void> find_axes(std::size_t tensor) {
    const TensorTerm& term = *rule_.reads[tensor];
    const Candidates& candidates = instance_.tensors[tensor];
    if (candidates.empty()) {
      frame_.read_axes.push_back(*term.axes());
      return {};
    }
    const Axes& own = *term.names[candidates.begin()->second.front().name].axes;
    for (const auto& [index, all] : candidates) {
      for (const Candidate& each : all) {
        if (auto ok = check_tensor(rule_, rule_.leaf(each.leaf)); !ok) return ok;
      }
    }
    const MapLeaf& source = source_of(tensor);
    const auto all = with_rank(own, source.shape.size());
    if (!all) {
      return rule_.failed(ErrorCode::kMapShape,
                          in_quotes(source.name) + " has " + counted(source.shape.size(), "axis") +
                              ", and [" + to_string(own) + "] are " + std::to_string(own.size()));
    }
    frame_.read_axes.push_back(*all);
    if (!has_rest(own)) return {};
    const std::size_t rest = source.shape.size() + 1 - own.size();
    if (frame_.rest && *frame_.rest != rest) {
      return rule_.failed(ErrorCode::kMapShape, "'...' stands for " + std::to_string(*frame_.rest) +
                                                    " and for " + counted(rest, "axis") + ": see " +
                                                    in_quotes(source.name));
    }
    frame_.rest = rest;
    return {};
  }

  // Until no tensor adds a size that another may need.
  Result<void> solve_all() {
    for (std::size_t known = frame_.sizes.size() + 1; known != frame_.sizes.size();) {
      known = frame_.sizes.size();
      for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
        if (instance_.tensors[t].empty()) continue;
        const MapLeaf& source = source_of(t);
        const Axes& axes = frame_.read_axes[t];
        if (auto ok = compute_sizes(planning_, axes, frame_.sizes, origins_); !ok) {
          return rule_.failed(ok.error());
        }
        if (auto ok = solve(axes, source.shape, frame_.sizes); !ok) {
          return rule_.failed(ErrorCode::kMapShape,
                              in_quotes(source.name) + " is " + printed(source.shape) + " for [" +
                                  to_string(axes) + "]: " + ok.error().message +
                                  origins_of(axes, frame_.sizes, origins_));
        }
      }
    }
    return {};
  }

  Result<void> check_shapes(std::size_t tensor) const {
    const Candidates& candidates = instance_.tensors[tensor];
    if (auto ok =
            check_known(rule_, frame_.read_axes[tensor], *rule_.reads[tensor], candidates, frame_);
        !ok) {
      return ok;
    }
    for (const auto& [index, all] : candidates) {
      const MapLeaf& first = source_of(tensor);
      const MapLeaf& each = rule_.leaf(all.front().leaf);
      if (each.shape == first.shape && each.dtype == first.dtype) continue;
      return rule_.failed(ErrorCode::kMapShape,
                          in_quotes(each.name) + " is " + std::string(dtype_name(each.dtype)) +
                              ' ' + printed(each.shape) + ", and " + in_quotes(first.name) +
                              " is " + std::string(dtype_name(first.dtype)) + ' ' +
                              printed(first.shape));
    }
    return {};
  }

  // Words that number the tensors of the other side along an axis here.
  void add_families() {
    if (rule_.rule.is_optional) return;
    for (const TensorTerm* tensor : rule_.writes) {
      for (const std::size_t word : rule_.words_of_written(*tensor)) {
        const auto size = frame_.sizes.find(rule_.rule.words[word]);
        if (size == frame_.sizes.end() || size->second > kMaxTargets) continue;
        auto& numbers = planning_.families[rule_.rule.words[word]][rule_.number];
        for (std::uint64_t i = 0; i < size->second; ++i) numbers.insert(i);
      }
    }
  }

  Planning& planning_;
  const PlannedRule& rule_;
  const Instance& instance_;
  Frame frame_;
  Origins origins_;
};

}  // namespace

Axes Frame::whole(const Axes& axes) const {
  if (!has_rest(axes)) return axes;
  return with_rank(axes, axes.size() - 1 + rest.value_or(0)).value_or(axes);
}

Result<Frame> find_sizes(const PlannedRule& rule, const Instance& instance) {
  return SizeFinder(rule, instance).find();
}

Result<void> check_known(const PlannedRule& rule, const Axes& axes, const TensorTerm& tensor,
                         const Candidates& candidates, const Frame& frame) {
  const auto unknown = unknown_word(axes, frame.sizes);
  if (!unknown) return {};
  std::string from = "[" + to_string(axes) + "]";
  if (!candidates.empty()) {
    const MapLeaf& source = rule.leaf(first_leaf(candidates));
    from = in_quotes(source.name) + ' ' + printed(source.shape);
  } else if (tensor.kind == TensorTerm::Kind::kTensor) {
    from = in_quotes(tensor.names.front().pattern.write(filled(frame.values))) + ' ' + from;
  }
  if (rule.planning.are_adapted() && candidates.empty() &&
      tensor.kind == TensorTerm::Kind::kTensor) {
    from += ", which the adapter lacks";
  }
  // One that the map computes, if the configuration lacks it: a size of another word, such as a
  // number of heads, may differ between tensors.
  const auto& computed = rule.planning.map.parts().sizes;
  for (const std::string& word : words_of(axes)) {
    const auto sized = computed.find(word);
    if (sized == computed.end() || frame.sizes.contains(word)) continue;
    std::string message = "the size of " + in_quotes(word);
    for (const Scalar& each : sized->second) {
      message += &each == &sized->second.front() ? ", " : ", or ";
      message += to_string(each);
    }
    message += ", cannot be computed for ";
    message += from;
    message += "; give its sizes with --set or --config";
    return rule.failed(ErrorCode::kMapUndetermined, message);
  }
  return rule.failed(ErrorCode::kMapUndetermined, "the size of '" + *unknown +
                                                      "' cannot be told from " + from +
                                                      "; give it: --set " + *unknown + "=...");
}

Result<void> check_tensor(const PlannedRule& rule, const MapLeaf& source) {
  if (!source.is_tensor) {
    return rule.failed(ErrorCode::kMapShape, in_quotes(source.name) +
                                                 " is no tensor, and a rule with axes takes "
                                                 "tensors");
  }
  if (!source.is_placeholder) return {};
  return rule.failed(ErrorCode::kMapShape,
                     in_quotes(source.name) + " is a placeholder without data");
}

bool is_plain_number(const Rule& rule, std::size_t word) {
  bool is_number = false;
  for (const auto* side : {&rule.left, &rule.right}) {
    for (const TensorTerm* tensor : tensors_of(*side)) {
      for (const TensorName& name : tensor->names) {
        for (const NamePattern::Item& item : name.pattern.items()) {
          if (!item.capture || item.capture->kind == Capture::Kind::kEither) continue;
          const bool is_low = !item.capture->low.empty() && item.low == word;
          if (item.word != word && !is_low) continue;
          if (item.capture->kind != Capture::Kind::kInteger || !item.capture->low.empty()) {
            return false;
          }
          is_number = true;
        }
      }
    }
  }
  return is_number;
}

std::string wrong_count(const std::string& word, const std::set<std::uint64_t>& numbers,
                        std::uint64_t size, const std::string& origin) {
  return '{' + word + "} has " + printed(numbers) + ", and would have " + std::to_string(size) +
         ' ' + origin + "; correct that, or give it: --set " + word + '=' +
         std::to_string(numbers.size());
}

std::string printed(const std::set<std::uint64_t>& numbers) {
  if (numbers.size() > 1 && *numbers.rbegin() - *numbers.begin() + 1 == numbers.size()) {
    return std::to_string(*numbers.begin()) + " to " + std::to_string(*numbers.rbegin());
  }
  std::string text;
  std::size_t count = 0;
  for (const std::uint64_t number : numbers) {
    if (count++ == 8) return text + ", ...";
    if (count > 1) text += ", ";
    text += std::to_string(number);
  }
  return text;
}

}  // namespace espalier
