#include "espalier/map/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/real_text.h"
#include "espalier/map/blocks.h"
#include "espalier/map/compute.h"
#include "espalier/map/map_error.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

// An element's position in a name's family, for the words that number tensors along an axis.
using Index = std::vector<std::uint64_t>;

// "0 to 3", or "0, 2, 3".
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

NumberStep::Kind inverse(NumberStep::Kind kind) {
  switch (kind) {
    case NumberStep::Kind::kAdd:
      return NumberStep::Kind::kSubtract;
    case NumberStep::Kind::kSubtract:
      return NumberStep::Kind::kAdd;
    case NumberStep::Kind::kMultiply:
      return NumberStep::Kind::kDivide;
    case NumberStep::Kind::kDivide:
      return NumberStep::Kind::kMultiply;
  }
  return kind;
}

bool is_drop(const Rule& rule) { return rule.drops_left || rule.drops_right; }

bool is_active(const Rule& rule, bool reverse) {
  return rule.direction == Rule::Direction::kBoth ||
         (rule.direction == Rule::Direction::kRightToLeft) == reverse;
}

bool has_copies(const TensorTerm& tensor) {
  return std::any_of(tensor.names.begin(), tensor.names.end(), [](const TensorName& name) {
    const auto items = name.pattern.items();
    return std::any_of(items.begin(), items.end(), [](const NamePattern::Item& item) {
      return item.capture && item.capture->kind == Capture::Kind::kCopies;
    });
  });
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

Result<void> check_names(std::span<const MapTarget> targets) {
  std::unordered_map<std::string_view, const MapTarget*> names;
  names.reserve(targets.size());
  const auto from = [&](const MapTarget& target) {
    return target.rule == MapTarget::kKept ? std::string("what no rule takes")
                                           : "rule " + std::to_string(target.rule + 1);
  };
  for (const MapTarget& target : targets) {
    for (std::size_t i = 0; i <= target.tied.size(); ++i) {
      const std::string& name = i == 0 ? target.name : target.tied[i - 1];
      const auto [other, is_new] = names.emplace(name, &target);
      if (is_new) continue;
      return fail(ErrorCode::kNameCollision, in_quotes(name) + " would be made twice: by " +
                                                 from(*other->second) + " and by " + from(target));
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

// Makes one plan.
class MapPlanner {
 public:
  MapPlanner(const KeyMap& map, std::vector<MapLeaf> leaves, const MapPlanOptions& options)
      : map_(map), options_(options), separator_(map.parts().side(!options.reverse).separator()) {
    plan_.leaves_ = std::move(leaves);
    plan_.rules_.resize(map.parts().rules.size());
  }

  Result<MapPlan> plan() {
    if (auto ok = check_directions(); !ok) return propagate(ok);
    if (auto ok = find_sizes(); !ok) return propagate(ok);
    if (auto ok = match_leaves(); !ok) return propagate(ok);
    for (std::size_t i = 0; i < map_.parts().rules.size(); ++i) {
      rule_ = static_cast<std::uint32_t>(i);
      if (auto ok = plan_rule(map_.parts().rules[i]); !ok) return propagate(ok);
    }
    if (auto ok = check_families(); !ok) return propagate(ok);
    if (auto ok = plan_rest(); !ok) return propagate(ok);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  // A leaf that a name of a rule fits.
  struct Found {
    std::uint32_t leaf = 0;
    std::uint32_t tensor = 0;  // number on the side that is read
    std::uint32_t name = 0;    // number of the name of a tie
    CaptureValues values;
  };
  // The leaves for one tensor of an instance, by the index of stacked words. Several for a tie, or
  // for copies: the first is read, and the others must be equal.
  struct Candidate {
    std::uint32_t name = 0;
    std::uint32_t leaf = 0;
  };
  struct Instance {
    CaptureValues values;  // of the words that both sides have
    std::vector<std::map<Index, std::vector<Candidate>>> tensors;
  };

  const std::vector<Part>& read_side(const Rule& rule) const {
    return rule.side(!options_.reverse);
  }
  const std::vector<Part>& written_side(const Rule& rule) const {
    return rule.side(options_.reverse);
  }
  bool drops_what_is_read(const Rule& rule) const {
    return options_.reverse ? rule.drops_left : rule.drops_right;
  }
  const MapLeaf& leaf(std::uint32_t number) const { return plan_.leaves_[number]; }

  bool has_all() const { return options_.parameters == MapParameters::kAll; }
  bool are_adapted() const { return options_.parameters == MapParameters::kAdapted; }

  tl::unexpected<Error> failed(ErrorCode code, const std::string& message) const {
    return fail(code, "rule " + std::to_string(rule_ + 1) + ": " + message);
  }

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

  std::optional<double> number(const std::string& word) const {
    if (const auto set = options_.sizes.find(word); set != options_.sizes.end()) {
      return static_cast<double>(set->second);
    }
    if (const auto set = options_.numbers.find(word); set != options_.numbers.end()) {
      return set->second;
    }
    if (const auto known = numbers_.find(word); known != numbers_.end()) return known->second;
    return options_.config ? options_.config(word) : std::nullopt;
  }

  // What the sizes of the map are; those that need others come later.
  Result<void> find_sizes() {
    for (const auto& [word, wanted] : map_.parts().required) {
      const auto found = options_.config ? options_.config(word) : std::nullopt;
      if (!found || *found == wanted) continue;
      return fail(ErrorCode::kMapInvalid, "the configuration has another " + in_quotes(word) +
                                              " than the map is right for: " + print_real(*found) +
                                              ", and not " + print_real(wanted));
    }
    sizes_ = options_.sizes;
    for (bool is_new = true; is_new;) {
      is_new = false;
      for (const auto& entry : map_.parts().sizes) {
        const std::string& word = entry.first;
        if (numbers_.contains(word) || options_.sizes.contains(word) ||
            options_.numbers.contains(word)) {
          continue;
        }
        for (const Scalar& expression : entry.second) {
          const auto value = evaluate(expression, [&](const std::string& name) {
            return name == word ? options_.config ? options_.config(name) : std::nullopt
                                : number(name);
          });
          if (!value) continue;
          numbers_.emplace(word, *value);
          // An axis has a whole number of steps; other numbers are for arithmetic alone.
          if (*value >= 0 && *value < 1e15 && std::floor(*value) == *value) {
            sizes_.emplace(word, static_cast<std::uint64_t>(*value));
          }
          is_new = true;
          break;
        }
      }
    }
    return {};
  }

  Result<void> match_leaves() {
    struct Entry {
      std::uint32_t rule;
      std::uint32_t tensor;
      std::uint32_t name;
      const NamePattern* pattern;
      std::size_t words;
    };
    std::vector<Entry> entries;
    found_.resize(map_.parts().rules.size());
    for (std::size_t i = 0; i < map_.parts().rules.size(); ++i) {
      const Rule& rule = map_.parts().rules[i];
      if (!is_active(rule, options_.reverse)) continue;
      const auto tensors = tensors_of(read_side(rule));
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (tensors[t]->is_looked_up || tensors[t]->kind != TensorTerm::Kind::kTensor) continue;
        for (std::size_t n = 0; n < tensors[t]->names.size(); ++n) {
          entries.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(t),
                             static_cast<std::uint32_t>(n), &tensors[t]->names[n].pattern,
                             rule.words.size()});
        }
      }
    }
    taken_.assign(plan_.leaves_.size(), kFree);
    CaptureValues values;
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      const std::string& name = plan_.leaves_[i].name;
      if (!numbers_by_name_.emplace(name, i).second) {
        return fail(ErrorCode::kNameCollision, "two tensors are called " + in_quotes(name) +
                                                   "; read them with paths as names");
      }
      for (const Entry& entry : entries) {
        values.assign(entry.words, std::nullopt);
        if (!entry.pattern->match(name, separator_, values)) continue;
        if (taken_[i] != kFree) {
          return fail(ErrorCode::kMapAmbiguous,
                      in_quotes(name) + " is taken by rule " + std::to_string(taken_[i] + 1) +
                          " and by rule " + std::to_string(entry.rule + 1) +
                          "; make one of them more exact");
        }
        taken_[i] = entry.rule;
        found_[entry.rule].push_back({i, entry.tensor, entry.name, values});
      }
    }
    return {};
  }

  Result<void> plan_rule(const Rule& rule) {
    if (!is_active(rule, options_.reverse)) return {};
    auto& found = found_[rule_];
    plan_.rules_[rule_].sources = found.size();
    if (drops_what_is_read(rule)) {
      for (const Found& each : found) plan_.dropped_.push_back({each.leaf, rule_});
      return {};
    }
    if (is_drop(rule)) return {};
    if (found.empty()) {
      if (rule.is_optional || options_.slot || !has_all()) return {};
      return failed(ErrorCode::kMapIncomplete,
                    "no tensor fits it: " + rule.text +
                        "; check the names, and --at if they stand below another one, or put '?' "
                        "before the rule if it may be unused");
    }
    reads_ = tensors_of(read_side(rule));
    writes_ = tensors_of(written_side(rule));
    const bool has_axes = reads_.front()->axes().has_value();
    if (!has_axes && reads_.front()->names.size() == 1 && !has_copies(*reads_.front())) {
      for (const Found& each : found) {
        note_words(rule, each.values);
        if (auto ok = rename(rule, each.leaf, each.values); !ok) return ok;
      }
      return {};
    }
    auto instances = group(rule, found);
    if (!instances) return propagate(instances);
    for (auto& [key, instance] : *instances) {
      if (auto ok = plan_instance(rule, instance, has_axes); !ok) return ok;
    }
    return {};
  }

  // The numbers that words have in this rule, to compare with those of other rules.
  void note_words(const Rule& rule, const CaptureValues& values) {
    if (rule.is_optional) return;
    for (std::size_t word = 0; word < rule.words.size(); ++word) {
      if (!values[word] || !values[word]->text.empty()) continue;
      families_[rule.words[word]][rule_].insert(static_cast<std::uint64_t>(values[word]->number));
    }
  }

  // Words whose values alone tell tensors apart: not parts of {6*b+j}, copies or choices.
  static bool is_plain_number(const Rule& rule, std::size_t word) {
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

  Result<std::map<std::vector<CaptureValue>, Instance>> group(const Rule& rule,
                                                              const std::vector<Found>& found) {
    std::vector<std::size_t> shared;
    for (std::size_t word = 0; word < rule.words.size(); ++word) {
      if (names_have(rule.left, word) && names_have(rule.right, word)) shared.push_back(word);
    }
    std::vector<std::vector<std::size_t>> stacked;
    for (const TensorTerm* tensor : reads_) {
      stacked.push_back(stacked_words(rule, *tensor, written_side(rule)));
    }
    std::map<std::vector<CaptureValue>, Instance> instances;
    for (const Found& each : found) {
      note_words(rule, each.values);
      std::vector<CaptureValue> key;
      key.reserve(shared.size());
      for (const std::size_t word : shared) {
        key.push_back(each.values[word].value_or(CaptureValue{}));
      }
      Instance& instance = instances[std::move(key)];
      if (instance.tensors.empty()) {
        instance.tensors.resize(reads_.size());
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

  // The word of {r=} in a name.
  static std::optional<std::size_t> copies_word(const TensorName& name) {
    for (const NamePattern::Item& item : name.pattern.items()) {
      if (item.capture && item.capture->kind == Capture::Kind::kCopies) return item.word;
    }
    return std::nullopt;
  }

  // The names of a target: that of `written`, further copies, and names that are tied to it, as far
  // as they have its axes.
  Result<void> add_names(const Rule& rule, const TensorTerm& tensor, std::size_t written,
                         CaptureValues values, const Sizes& sizes, MapTarget& target) {
    for (std::size_t i = written; i < tensor.names.size(); ++i) {
      const TensorName& name = tensor.names[i];
      if (i > written && (written > 0 || name.is_optional || !is_alike(tensor, i))) continue;
      std::uint64_t copies = 1;
      const auto word = copies_word(name);
      if (word) {
        const auto size = sizes.find(rule.words[*word]);
        if (size == sizes.end() || size->second == 0) {
          return failed(ErrorCode::kMapUndetermined,
                        "how many copies {" + rule.words[*word] +
                            "=} are to be written is not known; give it: --set " +
                            rule.words[*word] + "=...");
        }
        copies = size->second;
      }
      // Before the first: {r=} of a few bytes could name a tensor a million times.
      if (copies > most_names() - names_) return too_many();
      names_ += copies;
      for (std::uint64_t copy = 0; copy < copies; ++copy) {
        if (word) values[*word] = CaptureValue{static_cast<std::int64_t>(copy), {}};
        auto text = write_name(rule, name, values);
        if (!text) return propagate(text);
        name_bytes_ += text->size();
        if (name_bytes_ > kMaxNameBytes) return too_many();
        if (target.name.empty()) {
          target.name = std::move(*text);
        } else {
          target.tied.push_back(std::move(*text));
        }
      }
    }
    return {};
  }

  static bool is_alike(const TensorTerm& tensor, std::size_t name) {
    if (!tensor.axes()) return true;
    return to_string(*tensor.names[name].axes) == to_string(*tensor.axes());
  }

  // A name that would be read as another one's is no proof of an inverse.
  Result<std::string> write_name(const Rule& rule, const TensorName& name,
                                 const CaptureValues& values) const {
    std::string text = name.pattern.write(values);
    CaptureValues again(rule.words.size());
    const char separator = map_.parts().side(options_.reverse).separator();
    bool is_same = name.pattern.match(text, separator, again);
    for (std::size_t word = 0; is_same && word < rule.words.size(); ++word) {
      is_same = !name.pattern.has_word(word) || again[word] == values[word];
    }
    if (is_same) return text;
    return failed(ErrorCode::kMapAmbiguous, "the name " + in_quotes(text) +
                                                " that it makes would be read back with other "
                                                "captures; make the name more exact");
  }

  Result<void> rename(const Rule& rule, std::uint32_t source, const CaptureValues& values) {
    const TensorTerm& written = *writes_.front();
    MapTarget target;
    if (auto ok = add_names(rule, written, 0, values, sizes_, target); !ok) return ok;
    target.rule = rule_;
    target.source = source;
    target.dtype = leaf(source).dtype;
    target.shape = leaf(source).shape;
    if (const auto dtype = wanted_dtype(written, target.name)) {
      if (auto ok = cast(target, *dtype); !ok) return ok;
    }
    const auto read = as_plain(read_side(rule).front());
    const auto write = as_plain(written_side(rule).front());
    auto steps = steps_of(*read, *write, sizes_);
    if (!steps) return propagate(steps);
    if (!steps->empty()) {
      if (auto ok = as_piece(target); !ok) return ok;
      // An empty tensor has no piece.
      for (MapPiece& piece : target.pieces) piece.steps = *steps;
      target.work = MapWork::kArithmetic;
    }
    add(std::move(target));
    return {};
  }

  void add(MapTarget target) {
    MapRuleCount& count = plan_.rules_[rule_];
    ++count.targets;
    count.work = std::max(count.work, target.work);
    plan_.targets_.push_back(std::move(target));
  }

  // State along a parameter keeps its dtype.
  std::optional<DType> wanted_dtype(const TensorTerm& written, const std::string& name) const {
    if (options_.slot || are_adapted()) return std::nullopt;
    if (written.as) return written.as;
    for (const auto& [pattern, dtype] : map_.parts().dtypes) {
      if (matches_glob(pattern, name)) return dtype;
    }
    return std::nullopt;
  }

  // '*' stands for any text. Goes back to the last star alone, so it takes n * m steps at most.
  static bool matches_glob(std::string_view pattern, std::string_view name) {
    std::size_t p = 0;
    std::size_t n = 0;
    std::size_t star = std::string_view::npos;
    std::size_t after = 0;
    while (n < name.size()) {
      if (p < pattern.size() && pattern[p] == '*') {
        star = p++;
        after = n;
      } else if (p < pattern.size() && pattern[p] == name[n]) {
        ++p;
        ++n;
      } else if (star != std::string_view::npos) {
        p = star + 1;
        n = ++after;
      } else {
        return false;
      }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
  }

  // Makes a rename one piece, so that its elements can change.
  Result<void> as_piece(MapTarget& target) const {
    if (target.source == MapPiece::kZeros) return {};
    const MapLeaf& source = leaf(target.source);
    if (auto ok = check_tensor(target.source); !ok) return ok;
    if (!can_compute(source.dtype)) {
      return failed(ErrorCode::kMapShape, in_quotes(source.name) + " is " +
                                              std::string(dtype_name(source.dtype)) +
                                              ", and arithmetic is for f16, bf16, f32 and f64");
    }
    MapPiece piece;
    piece.source = target.source;
    piece.loops = {{elements_of(source.shape), 1, 1}};
    target.pieces.clear();
    if (settle(piece.loops)) target.pieces.push_back(std::move(piece));
    target.source = MapPiece::kZeros;
    return {};
  }

  Result<void> cast(MapTarget& target, DType dtype) const {
    if (target.dtype == dtype) return {};
    if (auto ok = as_piece(target); !ok) return ok;
    if (!can_compute(target.dtype) || !can_compute(dtype)) {
      return failed(ErrorCode::kMapShape, in_quotes(target.name) + " would change from " +
                                              std::string(dtype_name(target.dtype)) + " to " +
                                              std::string(dtype_name(dtype)) +
                                              "; only f16, bf16, f32 and f64 are converted");
    }
    target.dtype = dtype;
    target.work = MapWork::kArithmetic;
    return {};
  }

  Result<void> check_tensor(std::uint32_t number) const {
    const MapLeaf& source = leaf(number);
    if (!source.is_tensor) {
      return failed(ErrorCode::kMapShape,
                    in_quotes(source.name) + " is no tensor, and a rule with axes takes tensors");
    }
    if (source.is_placeholder) {
      return failed(ErrorCode::kMapShape,
                    in_quotes(source.name) + " is a placeholder without data");
    }
    return {};
  }

  // Which steps lead from what is read to what is written.
  Result<std::vector<MapStep>> steps_of(const PlainPart& read, const PlainPart& write,
                                        const Sizes& sizes) const {
    std::vector<MapStep> steps;
    const auto add_step = [&](const NumberStep& step, bool inverts) -> Result<void> {
      const auto value = evaluate(step.scalar, [&](const std::string& word) {
        if (const auto size = sizes.find(word); size != sizes.end()) {
          return std::optional(static_cast<double>(size->second));
        }
        return number(word);
      });
      if (!value ||
          ((step.kind == NumberStep::Kind::kMultiply || step.kind == NumberStep::Kind::kDivide) &&
           *value == 0)) {
        return failed(ErrorCode::kMapUndetermined,
                      "the number " + to_string(step.scalar) +
                          " cannot be computed; give its sizes with --set or --config");
      }
      steps.push_back({inverts ? inverse(step.kind) : step.kind, *value});
      return {};
    };
    for (const NumberStep& step : read.steps) {
      if (auto ok = add_step(step, false); !ok) return propagate(ok);
    }
    for (std::size_t i = write.steps.size(); i-- > 0;) {
      if (auto ok = add_step(write.steps[i], true); !ok) return propagate(ok);
    }
    if (!options_.slot || *options_.slot == MapAlong::Slot::kWeight) return steps;
    return steps_of_moments(steps);
  }

  // A gradient does not change with a constant that is added, and changes with 1/c if its parameter
  // is scaled by c. The learning rate of the parameter would have to change, too.
  Result<std::vector<MapStep>> steps_of_moments(const std::vector<MapStep>& steps) const {
    std::vector<MapStep> inverted;
    for (const MapStep& step : steps) {
      if (step.kind != NumberStep::Kind::kMultiply && step.kind != NumberStep::Kind::kDivide) {
        continue;
      }
      const bool is_squared = *options_.slot == MapAlong::Slot::kMoment2;
      inverted.push_back({inverse(step.kind), is_squared ? step.value * step.value : step.value});
    }
    if (inverted.empty() || options_.scales_moments) return inverted;
    return failed(ErrorCode::kMapNotInvertible,
                  "it scales a parameter, whose moments would have another learning rate; "
                  "--along-scaled scales them all the same");
  }

  // One instance of a rule while it is planned: the sizes of words, and axes with all of "...".
  struct Frame {
    CaptureValues values;
    Sizes sizes;
    std::vector<Axes> read_axes;
    std::optional<std::size_t> rest;  // axes behind "..."
  };

  Result<void> plan_instance(const Rule& rule, Instance& instance, bool has_axes) {
    const bool is_plain = std::all_of(read_side(rule).begin(), read_side(rule).end(),
                                      [](const Part& part) { return as_plain(part).has_value(); });
    if (!is_plain && options_.slot) {
      return failed(ErrorCode::kMapNotInvertible,
                    "it computes a parameter from several, and state along them has no such sum");
    }
    if (!is_plain && are_adapted()) {
      return failed(ErrorCode::kMapNotInvertible,
                    "it computes a tensor from " + first_name(instance) +
                        " and others, and factors have no such sum; merge the adapter into its "
                        "base, and map that");
    }
    if (auto ok = look_up(instance); !ok) return ok;
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      auto& candidates = instance.tensors[t];
      if (candidates.empty() && reads_[t]->kind == TensorTerm::Kind::kTensor && !are_adapted()) {
        return incomplete(rule, instance, t);
      }
      // A tied parameter has one state, under one name.
      for (std::size_t n = 0; n < reads_[t]->names.size() && !options_.slot; ++n) {
        if (reads_[t]->names[n].is_optional) continue;
        for (const auto& [index, all] : candidates) {
          const bool is_there = std::any_of(all.begin(), all.end(),
                                            [&](const Candidate& each) { return each.name == n; });
          if (!is_there) return incomplete(rule, instance, t, n);
        }
      }
      for (auto& [index, all] : candidates) {
        std::stable_sort(all.begin(), all.end(),
                         [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
      }
    }
    if (!has_axes) {
      const auto& all = instance.tensors.front().begin()->second;
      for (std::size_t i = 1; i < all.size(); ++i) {
        if (auto ok = check_same_kind(all.front().leaf, all[i].leaf); !ok) return ok;
        plan_.equals_.push_back({rule_, all.front().leaf, all[i].leaf});
      }
      return rename(rule, all.front().leaf, instance.values);
    }
    Frame frame{instance.values, sizes_, {}, std::nullopt};
    if (auto ok = count_families(rule, instance, frame); !ok) return ok;
    if (auto ok = find_shapes(rule, instance, frame); !ok) return ok;
    if (auto ok = check_equals(instance, frame); !ok) return ok;
    return is_plain ? gather(rule, instance, frame) : merge(rule, instance, frame);
  }

  // Finds the tensors that other rules may take too.
  // Of what must be one tensor, and is stored alike.
  Result<void> check_same_kind(std::uint32_t a, std::uint32_t b) const {
    const MapLeaf& first = leaf(a);
    const MapLeaf& second = leaf(b);
    if (first.is_tensor == second.is_tensor && first.shape == second.shape &&
        is_stored_alike(first, second)) {
      return {};
    }
    return failed(ErrorCode::kMapShape, in_quotes(second.name) + " is not the same tensor as " +
                                            in_quotes(first.name) +
                                            ": dtype or shape are different");
  }

  Result<void> look_up(Instance& instance) {
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      if (!reads_[t]->is_looked_up) continue;
      for (std::size_t n = 0; n < reads_[t]->names.size(); ++n) {
        const auto number =
            numbers_by_name_.find(reads_[t]->names[n].pattern.write(instance.values));
        if (number == numbers_by_name_.end()) continue;
        instance.tensors[t][{}].push_back({static_cast<std::uint32_t>(n), number->second});
        looked_up_.insert(number->second);
      }
    }
    return {};
  }

  // The first tensor of an instance that is there.
  std::string first_name(const Instance& instance) const {
    for (const auto& candidates : instance.tensors) {
      if (!candidates.empty()) return in_quotes(leaf(candidates.begin()->second.front().leaf).name);
    }
    return {};
  }

  tl::unexpected<Error> incomplete(const Rule& rule, const Instance& instance, std::size_t missing,
                                   std::size_t name_number = 0) const {
    CaptureValues values = instance.values;
    for (auto& value : values) {
      if (!value) value = CaptureValue{};
    }
    const std::string name = reads_[missing]->names[name_number].pattern.write(values);
    (void)rule;
    return failed(ErrorCode::kMapIncomplete,
                  "found " + first_name(instance) + " but not " + in_quotes(name));
  }

  // The words that number tensors: each from 0 on without a gap, and a tensor for every choice.
  Result<void> count_families(const Rule& rule, const Instance& instance, Frame& frame) {
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      // What an adapter lacks has as many tensors as the others.
      if (instance.tensors[t].empty()) continue;
      const auto words = stacked_words(rule, *reads_[t], written_side(rule));
      std::uint64_t combinations = 1;
      for (std::size_t k = 0; k < words.size(); ++k) {
        std::set<std::uint64_t> numbers;
        for (const auto& [index, all] : instance.tensors[t]) numbers.insert(index[k]);
        const std::string& word = rule.words[words[k]];
        if (are_adapted()) {
          if (auto ok = count_adapted(word, numbers, frame); !ok) return ok;
          continue;
        }
        std::uint64_t next = 0;
        for (const std::uint64_t number : numbers) {
          if (number != next) break;
          ++next;
        }
        if (next != numbers.size()) {
          return failed(ErrorCode::kMapIncomplete, '{' + word + "} has " + printed(numbers) + ": " +
                                                       std::to_string(next) + " is missing");
        }
        const auto [known, is_new] = frame.sizes.emplace(word, numbers.size());
        if (!is_new && known->second != numbers.size()) {
          return failed(ErrorCode::kMapIncomplete,
                        '{' + word + "} has " + printed(numbers) + " here, and " +
                            std::to_string(known->second) + " elsewhere: see " +
                            in_quotes(leaf(instance.tensors[t].begin()->second.front().leaf).name));
        }
        combinations *= numbers.size();
      }
      if (instance.tensors[t].size() < combinations && !are_adapted()) {
        return failed(ErrorCode::kMapIncomplete,
                      "of " + std::to_string(combinations) + " tensors like " +
                          in_quotes(leaf(instance.tensors[t].begin()->second.front().leaf).name) +
                          ", only " + std::to_string(instance.tensors[t].size()) + " are there");
      }
    }
    return {};
  }

  // An adapter may be of some layers or experts. Their number is that which is known, or that of
  // all that the adapter has, from 0 on without a gap.
  Result<void> count_adapted(const std::string& word, const std::set<std::uint64_t>& numbers,
                             Frame& frame) {
    if (const auto known = frame.sizes.find(word); known != frame.sizes.end()) {
      if (*numbers.rbegin() < known->second) return {};
      return failed(ErrorCode::kMapIncomplete, '{' + word + "} has " + printed(numbers) +
                                                   " here, and " + std::to_string(known->second) +
                                                   " elsewhere");
    }
    std::set<std::uint64_t>& all = numbers_by_word_[{rule_, word}];
    if (all.empty()) {
      for (std::size_t i = 0; i < map_.parts().rules.size(); ++i) {
        const auto& words = map_.parts().rules[i].words;
        const auto at = std::find(words.begin(), words.end(), word);
        if (at == words.end()) continue;
        const auto own = static_cast<std::size_t>(at - words.begin());
        if (i != rule_ &&
            (map_.parts().rules[i].is_optional || !is_plain_number(map_.parts().rules[i], own))) {
          continue;
        }
        for (const Found& each : found_[i]) {
          if (!each.values[own] || !each.values[own]->text.empty()) continue;
          all.insert(static_cast<std::uint64_t>(each.values[own]->number));
        }
      }
    }
    if (*all.rbegin() + 1 != all.size()) {
      return failed(ErrorCode::kMapUndetermined,
                    "the adapter has {" + word + "} " + printed(all) +
                        " alone, and how many its base has is not known; give it: --set " + word +
                        "=...");
    }
    frame.sizes.emplace(word, all.size());
    std::uint64_t& guessed = plan_.guessed_[word];
    guessed = std::max<std::uint64_t>(guessed, all.size());
    return {};
  }

  Result<void> find_shapes(const Rule& rule, const Instance& instance, Frame& frame) {
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      const Axes& axes = *reads_[t]->axes();
      if (instance.tensors[t].empty()) {
        frame.read_axes.push_back(axes);
        continue;
      }
      const Candidate& first = instance.tensors[t].begin()->second.front();
      const Axes& own = *reads_[t]->names[first.name].axes;
      for (const auto& [index, all] : instance.tensors[t]) {
        for (const Candidate& each : all) {
          if (auto ok = check_tensor(each.leaf); !ok) return ok;
        }
      }
      const MapLeaf& source = leaf(first.leaf);
      const auto all = with_rank(own, source.shape.size());
      if (!all) {
        return failed(ErrorCode::kMapShape,
                      in_quotes(source.name) + " has " + counted(source.shape.size(), "axis") +
                          ", and [" + to_string(own) + "] are " + std::to_string(own.size()));
      }
      frame.read_axes.push_back(*all);
      if (!has_rest(own)) continue;
      const std::size_t rest = source.shape.size() + 1 - own.size();
      if (frame.rest && *frame.rest != rest) {
        return failed(ErrorCode::kMapShape, "'...' stands for " + std::to_string(*frame.rest) +
                                                " and for " + counted(rest, "axis") + ": see " +
                                                in_quotes(source.name));
      }
      frame.rest = rest;
    }
    for (Axes& axes : frame.read_axes) axes = written_axes(axes, frame);
    if (auto ok = solve_all(instance, frame); !ok) return ok;
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      if (auto ok = check_known(frame.read_axes[t], *reads_[t], instance.tensors[t], frame); !ok) {
        return ok;
      }
      for (const auto& [index, all] : instance.tensors[t]) {
        const MapLeaf& first = leaf(instance.tensors[t].begin()->second.front().leaf);
        const MapLeaf& each = leaf(all.front().leaf);
        if (each.shape == first.shape && each.dtype == first.dtype) continue;
        return failed(ErrorCode::kMapShape,
                      in_quotes(each.name) + " is " + std::string(dtype_name(each.dtype)) + ' ' +
                          printed(each.shape) + ", and " + in_quotes(first.name) + " is " +
                          std::string(dtype_name(first.dtype)) + ' ' + printed(first.shape));
      }
    }
    note_sizes(rule, frame);
    return {};
  }

  Result<void> solve_all(const Instance& instance, Frame& frame) const {
    for (std::size_t known = frame.sizes.size() + 1; known != frame.sizes.size();) {
      known = frame.sizes.size();
      for (std::size_t t = 0; t < reads_.size(); ++t) {
        if (instance.tensors[t].empty()) continue;
        const MapLeaf& source = leaf(instance.tensors[t].begin()->second.front().leaf);
        if (auto ok = solve(frame.read_axes[t], source.shape, frame.sizes); !ok) {
          return failed(ErrorCode::kMapShape,
                        in_quotes(source.name) + " is " + printed(source.shape) + " for [" +
                            to_string(frame.read_axes[t]) + "]: " + ok.error().message);
        }
      }
    }
    return {};
  }

  Result<void> check_known(const Axes& axes, const TensorTerm& tensor,
                           const std::map<Index, std::vector<Candidate>>& candidates,
                           const Frame& frame) const {
    const auto unknown = unknown_word(axes, frame.sizes);
    if (!unknown) return {};
    std::string from = "[" + to_string(axes) + "]";
    if (!candidates.empty()) {
      const MapLeaf& source = leaf(candidates.begin()->second.front().leaf);
      from = in_quotes(source.name) + ' ' + printed(source.shape);
    } else if (tensor.kind == TensorTerm::Kind::kTensor) {
      from = in_quotes(tensor.names.front().pattern.write(filled(frame.values))) + ' ' + from;
    }
    if (are_adapted() && candidates.empty() && tensor.kind == TensorTerm::Kind::kTensor) {
      from += ", which the adapter lacks";
    }
    // One that the map computes, if the configuration lacks it: a size of another word, such as a
    // number of heads, may differ between tensors.
    for (const std::string& word : words_of(axes)) {
      const auto sized = map_.parts().sizes.find(word);
      if (sized == map_.parts().sizes.end() || frame.sizes.contains(word)) continue;
      std::string message = "the size of " + in_quotes(word);
      for (const Scalar& each : sized->second) {
        message += &each == &sized->second.front() ? ", " : ", or ";
        message += to_string(each);
      }
      message += ", cannot be computed for ";
      message += from;
      message += "; give its sizes with --set or --config";
      return failed(ErrorCode::kMapUndetermined, message);
    }
    return failed(ErrorCode::kMapUndetermined, "the size of '" + *unknown +
                                                   "' cannot be told from " + from +
                                                   "; give it: --set " + *unknown + "=...");
  }

  static CaptureValues filled(CaptureValues values) {
    for (auto& value : values) {
      if (!value) value = CaptureValue{};
    }
    return values;
  }

  // Words that number the tensors of the other side along an axis here.
  void note_sizes(const Rule& rule, const Frame& frame) {
    if (rule.is_optional) return;
    for (const TensorTerm* tensor : writes_) {
      for (const std::size_t word : stacked_words(rule, *tensor, read_side(rule))) {
        const auto size = frame.sizes.find(rule.words[word]);
        if (size == frame.sizes.end() || size->second > kMaxTargets) continue;
        auto& numbers = families_[rule.words[word]][rule_];
        for (std::uint64_t i = 0; i < size->second; ++i) numbers.insert(i);
      }
    }
  }

  Result<void> check_equals(const Instance& instance, const Frame& frame) {
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      for (const auto& [index, all] : instance.tensors[t]) {
        for (std::size_t i = 1; i < all.size(); ++i) {
          MapEqual equal{rule_, all.front().leaf, all[i].leaf};
          const Axes& first = frame.read_axes[t];
          const auto other =
              with_rank(*reads_[t]->names[all[i].name].axes, leaf(all[i].leaf).shape.size());
          const auto shape = other
                                 ? shape_of(*other, frame.sizes)
                                 : Result<std::vector<std::uint64_t>>(std::vector<std::uint64_t>());
          if (!other || !shape || *shape != leaf(all[i].leaf).shape ||
              !is_stored_alike(leaf(all[i].leaf), leaf(all.front().leaf))) {
            return failed(ErrorCode::kMapShape, in_quotes(leaf(all[i].leaf).name) +
                                                    " is not the same tensor as " +
                                                    in_quotes(leaf(all.front().leaf).name) +
                                                    ": dtype or shape are different");
          }
          if (to_string(first) != to_string(*other)) {
            auto piece = piece_between(first, *other, frame.sizes);
            if (!piece) return propagate(piece);
            piece->source = all.front().leaf;
            if (auto ok = check_whole(*piece); !ok) return ok;
            equal.piece = std::move(*piece);
          }
          plan_.equals_.push_back(std::move(equal));
        }
      }
    }
    return {};
  }

  // Two orders of the same axes, of one block each.
  Result<MapPiece> piece_between(const Axes& from, const Axes& to, const Sizes& sizes) const {
    const auto source = cells_of(from, sizes);
    const auto target = cells_of(to, sizes);
    if (!source || !target || source->size() != 1 || target->size() != 1) {
      return failed(ErrorCode::kMapShape, "the names of a tie have sums of axes");
    }
    MapPiece piece;
    piece.from = source->front().base;
    piece.to = target->front().base;
    for (const Atom& atom : source->front().atoms) {
      for (const Atom& other : target->front().atoms) {
        if (other.id == atom.id) piece.loops.push_back({atom.size, atom.stride, other.stride});
      }
    }
    settle(piece.loops);
    return piece;
  }

  // The axes of a name that is written, without "...".
  Axes written_axes(const Axes& axes, const Frame& frame) const {
    if (!has_rest(axes)) return axes;
    return with_rank(axes, axes.size() - 1 + frame.rest.value_or(0)).value_or(axes);
  }

  // A tensor that is written, for one choice of its stacked words.
  struct Written {
    std::size_t tensor = 0;
    std::size_t name = 0;
    Axes axes;
    std::vector<std::size_t> words;
  };

  Result<void> gather(const Rule& rule, const Instance& instance, const Frame& frame) {
    std::vector<Block> sources;
    for (std::size_t t = 0; t < reads_.size(); ++t) {
      if (auto ok = add_blocks(rule, *reads_[t], t, written_side(rule), frame.read_axes[t],
                               frame.sizes, sources);
          !ok) {
        return failed(ok.error().code, ok.error().message);
      }
    }
    // First all tensors with their first names; then each name of a tie with axes of its own.
    std::vector<Written> written;
    for (std::size_t t = 0; t < writes_.size(); ++t) {
      written.push_back({t, 0, written_axes(*writes_[t]->axes(), frame),
                         stacked_words(rule, *writes_[t], read_side(rule))});
      if (auto ok = check_known(written.back().axes, *writes_[t], {}, frame); !ok) return ok;
    }
    if (auto ok = make_targets(rule, instance, frame, sources, written, std::nullopt); !ok) {
      return ok;
    }
    for (std::size_t t = 0; t < writes_.size(); ++t) {
      for (std::size_t n = 1; n < writes_[t]->names.size(); ++n) {
        if (writes_[t]->names[n].is_optional || is_alike(*writes_[t], n)) continue;
        auto others = written;
        others[t].name = n;
        others[t].axes = written_axes(*writes_[t]->names[n].axes, frame);
        if (auto ok = make_targets(rule, instance, frame, sources, others, t); !ok) return ok;
      }
    }
    return {};
  }

  // Every choice of numbers for words, the last one fastest.
  template <class Visit>
  Result<void> for_each_index(const Rule& rule, const std::vector<std::size_t>& words,
                              const Frame& frame, const Visit& visit) const {
    Index index(words.size(), 0);
    Index counts;
    for (const std::size_t word : words) counts.push_back(frame.sizes.at(rule.words[word]));
    if (std::find(counts.begin(), counts.end(), 0) != counts.end()) return {};
    for (;;) {
      if (auto ok = visit(index); !ok) return ok;
      std::size_t k = words.size();
      while (k > 0 && ++index[k - 1] == counts[k - 1]) index[--k] = 0;
      if (k == 0) return {};
    }
  }

  Result<void> make_targets(const Rule& rule, const Instance& instance, const Frame& frame,
                            const std::vector<Block>& sources, const std::vector<Written>& written,
                            std::optional<std::size_t> only) {
    std::vector<Block> targets;
    for (const Written& each : written) {
      if (auto ok = add_blocks(rule, *writes_[each.tensor], each.tensor, read_side(rule), each.axes,
                               frame.sizes, targets);
          !ok) {
        return failed(ok.error().code, ok.error().message);
      }
    }
    // In the order of the rule's text in both directions, so that the inverse pairs the same.
    const auto pairs =
        options_.reverse ? swapped(pair_blocks(targets, sources)) : pair_blocks(sources, targets);
    if (!pairs) return failed(pairs.error().code, pairs.error().message);
    // The tensors of this instance, by tensor and index.
    std::vector<std::map<Index, MapTarget>> made(written.size());
    for (const Written& each : written) {
      if (auto ok = begin_targets(rule, frame, each, made[each.tensor]); !ok) return ok;
    }
    for (const auto& [i, k] : *pairs) {
      if (auto ok = connect(rule, instance, frame, sources[i], targets[k],
                            written[targets[k].tensor], made[targets[k].tensor]);
          !ok) {
        return ok;
      }
    }
    for (const Written& each : written) {
      if (only && each.tensor != *only) continue;
      for (auto& [index, target] : made[each.tensor]) {
        if (auto ok = finish(rule, std::move(target), *writes_[each.tensor]); !ok) return ok;
      }
    }
    return {};
  }

  static Result<std::vector<std::pair<std::size_t, std::size_t>>> swapped(
      Result<std::vector<std::pair<std::size_t, std::size_t>>> pairs) {
    if (pairs) {
      for (auto& [a, b] : *pairs) std::swap(a, b);
    }
    return pairs;
  }

  Result<void> begin_targets(const Rule& rule, const Frame& frame, const Written& written,
                             std::map<Index, MapTarget>& made) {
    const TensorTerm& tensor = *writes_[written.tensor];
    if (tensor.kind != TensorTerm::Kind::kTensor) return {};
    const auto shape = shape_of(written.axes, frame.sizes);
    if (!shape) return failed(shape.error().code, shape.error().message);
    std::uint64_t count = 1;
    for (const std::size_t word : written.words) {
      const auto product = checked_mul(count, frame.sizes.at(rule.words[word]));
      if (!product || *product > most_names()) return too_many();
      count = *product;
    }
    return for_each_index(rule, written.words, frame, [&](const Index& index) -> Result<void> {
      CaptureValues values = frame.values;
      for (std::size_t k = 0; k < index.size(); ++k) {
        values[written.words[k]] = CaptureValue{static_cast<std::int64_t>(index[k]), {}};
      }
      MapTarget target;
      target.rule = rule_;
      target.shape = *shape;
      if (auto ok = add_names(rule, tensor, written.name, values, frame.sizes, target); !ok) {
        return ok;
      }
      for (const Axis& axis : written.axes) {
        const AxisTerm& term = axis.terms.front();
        target.words.push_back(axis.terms.size() == 1 ? term.word : std::string());
      }
      made.emplace(index, std::move(target));
      return {};
    });
  }

  // Names of tensors that may be made: one for each that is there, and some more. An adapted weight
  // becomes two factors.
  std::uint64_t most_names() const {
    return plan_.leaves_.size() + (are_adapted() ? kMaxTargets / 2 : kMaxTargets);
  }

  tl::unexpected<Error> too_many() const {
    return failed(ErrorCode::kLimitExceeded,
                  "with the rules before it, it makes more than 16,777,216 pieces, " +
                      std::to_string(most_names()) + " names of tensors, or 256 MiB of names");
  }

  Result<void> connect(const Rule& rule, const Instance& instance, const Frame& frame,
                       const Block& source, const Block& target, const Written& written,
                       std::map<Index, MapTarget>& made) {
    const TensorTerm& from = *reads_[source.tensor];
    const TensorTerm& to = *writes_[target.tensor];
    const auto from_words = stacked_words(rule, from, written_side(rule));
    const auto step = steps_between(rule, source.tensor, target.tensor, frame.sizes);
    if (!step) return propagate(step);
    return for_each_index(rule, from_words, frame, [&](const Index& from_index) {
      return for_each_index(rule, written.words, frame, [&](const Index& to_index) -> Result<void> {
        MapPiece piece;
        piece.steps = *step;
        if (const auto& there = instance.tensors[source.tensor]; !there.empty()) {
          const auto found = there.find(from_index);
          if (found != there.end()) piece.source = found->second.front().leaf;
        }
        piece.from = source.cell.base + position(rule, written.words, to_index, source.cell);
        piece.to = target.cell.base + position(rule, from_words, from_index, target.cell);
        for (const Atom& atom : source.cell.atoms) {
          for (const Atom& other : target.cell.atoms) {
            if (other.id != atom.id) continue;
            piece.loops.push_back({atom.size, atom.stride, other.stride});
            if (are_adapted()) piece.axes.emplace_back(atom.axis, other.axis);
          }
        }
        if (++pieces_ > kMaxPieces) return too_many();
        if (are_adapted() ? is_empty(piece) : !settle(piece.loops)) return {};
        if (piece.source == MapPiece::kZeros) {
          for (MapLoop& loop : piece.loops) loop.from = 0;
        }
        if (to.kind != TensorTerm::Kind::kTensor) {
          if (are_adapted() && piece.source == MapPiece::kZeros) return {};
          if (auto ok = check_whole(piece); !ok) return ok;
          plan_.losses_.push_back(
              {rule_, piece.source, to.kind == TensorTerm::Kind::kZeros, std::move(piece)});
          return {};
        }
        return add_piece(made.at(to_index), std::move(piece));
      });
    });
  }

  static bool is_empty(const MapPiece& piece) {
    return std::any_of(piece.loops.begin(), piece.loops.end(),
                       [](const MapLoop& loop) { return loop.count == 0; });
  }

  // Where the elements of one choice of words stand in a cell that has them as axes.
  static std::int64_t position(const Rule& rule, const std::vector<std::size_t>& words,
                               const Index& index, const Cell& cell) {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < words.size(); ++k) {
      for (const Atom& atom : cell.atoms) {
        if (atom.id == rule.words[words[k]]) {
          position += atom.stride * static_cast<std::int64_t>(index[k]);
        }
      }
    }
    return position;
  }

  Result<std::vector<MapStep>> steps_between(const Rule& rule, std::size_t read, std::size_t write,
                                             const Sizes& sizes) const {
    // Plain parts have one tensor each.
    return steps_of(*as_plain(read_side(rule)[read]), *as_plain(written_side(rule)[write]), sizes);
  }

  Result<void> add_piece(MapTarget& target, MapPiece piece) const {
    if (piece.source != MapPiece::kZeros) {
      const MapLeaf& source = leaf(piece.source);
      for (const MapPiece& other : target.pieces) {
        if (other.source == MapPiece::kZeros) continue;
        const MapLeaf& before = leaf(other.source);
        if (is_stored_alike(before, source)) break;
        return failed(ErrorCode::kMapShape, of_two_dtypes(before, source) + in_quotes(target.name) +
                                                ", which has one dtype");
      }
      target.dtype = source.dtype;
    }
    target.pieces.push_back(std::move(piece));
    return {};
  }

  Result<void> finish(const Rule& rule, MapTarget target, const TensorTerm& tensor) {
    (void)rule;
    const MapLeaf* source = nullptr;
    for (const MapPiece& piece : target.pieces) {
      if (piece.source != MapPiece::kZeros) source = &leaf(piece.source);
    }
    if (are_adapted()) {
      // Of missing tensors alone, there is nothing to adapt.
      if (source != nullptr) add(std::move(target));
      return {};
    }
    if (source == nullptr && elements_of(target.shape) > 0) {
      return failed(ErrorCode::kMapShape,
                    in_quotes(target.name) + " would be zeros alone, of no dtype");
    }
    if (source == nullptr) {
      target.dtype = leaf(found_[rule_].front().leaf).dtype;
    } else {
      target.dtype = source->dtype;
      if (auto ok = check_units(target, *source); !ok) return ok;
    }
    target.work = work_of(target, plan_.leaves_);
    if (const auto dtype = wanted_dtype(tensor, target.name)) {
      if (auto ok = cast(target, *dtype); !ok) return ok;
    }
    const bool has_steps = std::any_of(target.pieces.begin(), target.pieces.end(),
                                       [](const MapPiece& piece) { return !piece.steps.empty(); });
    if (has_steps) {
      if (!can_compute(target.dtype)) {
        return failed(ErrorCode::kMapShape, in_quotes(target.name) + " is " +
                                                std::string(dtype_name(target.dtype)) +
                                                ", and arithmetic is for f16, bf16, f32 and f64");
      }
      target.work = MapWork::kArithmetic;
    }
    if (target.work == MapWork::kRename && target.pieces.size() == 1) {
      target.source = target.pieces.front().source;
      target.pieces.clear();
    }
    add(std::move(target));
    return {};
  }

  // Of what a check reads by itself.
  Result<void> check_whole(const MapPiece& piece) const {
    const MapLeaf& source = leaf(piece.source);
    const MapUnit unit = unit_of(source);
    if (unit.elements == 1 || piece.loops.empty() || is_whole_units(piece, unit)) return {};
    return failed(ErrorCode::kMapShape,
                  in_quotes(source.name) + " is " + std::string(dtype_name(source.dtype)) +
                      ", whose elements come in blocks of " + std::to_string(unit.elements) +
                      "; the map would take one apart");
  }

  Result<void> check_units(const MapTarget& target, const MapLeaf& source) const {
    const MapUnit unit = unit_of(source);
    for (const MapPiece& piece : target.pieces) {
      if (is_identity(target, piece, plan_.leaves_) || is_whole_units(piece, unit)) continue;
      return failed(ErrorCode::kMapShape,
                    in_quotes(source.name) + " is " + std::string(dtype_name(source.dtype)) +
                        ", whose elements come in blocks of " + std::to_string(unit.elements) +
                        "; the map would take one apart");
    }
    return {};
  }

  Result<void> merge(const Rule& rule, const Instance& instance, const Frame& frame) {
    const TensorTerm& tensor = *writes_.front();
    const Axes axes = *tensor.axes();
    if (auto ok = check_known(axes, tensor, {}, frame); !ok) return ok;
    const auto cells = cells_of(axes, frame.sizes);
    const auto shape = shape_of(axes, frame.sizes);
    if (!cells) return failed(cells.error().code, cells.error().message);
    if (!shape) return failed(shape.error().code, shape.error().message);
    MapTarget target;
    target.rule = rule_;
    target.shape = *shape;
    if (auto ok = add_names(rule, tensor, 0, frame.values, frame.sizes, target); !ok) return ok;
    target.work = MapWork::kArithmetic;
    std::size_t number = 0;
    for (const Term& term : read_side(rule).front().terms) {
      auto made = term_of(term, cells->front(), instance, frame, number);
      if (!made) return propagate(made);
      target.terms.push_back(std::move(*made));
    }
    target.dtype = leaf(target.terms.front().operands.front().source).dtype;
    if (const auto dtype = wanted_dtype(tensor, target.name)) target.dtype = *dtype;
    for (const MapTerm& term : target.terms) {
      for (const MapOperand& operand : term.operands) {
        if (can_compute(leaf(operand.source).dtype) && can_compute(target.dtype)) continue;
        return failed(ErrorCode::kMapShape,
                      in_quotes(leaf(operand.source).name) + " is " +
                          std::string(dtype_name(leaf(operand.source).dtype)) +
                          ", and arithmetic is for f16, bf16, f32 and f64");
      }
    }
    add(std::move(target));
    return {};
  }

  Result<MapTerm> term_of(const Term& term, const Cell& target, const Instance& instance,
                          const Frame& frame, std::size_t& number) const {
    MapTerm made;
    made.factor = term.is_subtracted ? -1 : 1;
    for (const auto& [scalar, divides] : term.scalars) {
      const auto value = evaluate(scalar, [&](const std::string& word) {
        if (const auto size = frame.sizes.find(word); size != frame.sizes.end()) {
          return std::optional(static_cast<double>(size->second));
        }
        return this->number(word);
      });
      if (!value || (divides && *value == 0)) {
        return failed(ErrorCode::kMapUndetermined,
                      "the number " + to_string(scalar) +
                          " cannot be computed; give its sizes with --set or --config");
      }
      made.factor = divides ? made.factor / *value : made.factor * *value;
    }
    std::vector<std::string> ids;
    for (const Atom& atom : target.atoms) {
      ids.push_back(atom.id);
      made.counts.push_back(atom.size);
    }
    made.target_loops = ids.size();
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < term.tensors.size(); ++i) {
      auto own = cells_of(frame.read_axes[number + i], frame.sizes);
      if (!own) return failed(own.error().code, own.error().message);
      for (const Atom& atom : own->front().atoms) {
        if (std::find(ids.begin(), ids.end(), atom.id) != ids.end()) continue;
        ids.push_back(atom.id);
        made.counts.push_back(atom.size);
      }
      cells.push_back(std::move(own->front()));
    }
    for (const Cell& cell : cells) {
      MapOperand operand;
      operand.source = instance.tensors[number++].begin()->second.front().leaf;
      operand.from = cell.base;
      operand.strides.assign(ids.size(), 0);
      for (const Atom& atom : cell.atoms) {
        const auto at = std::find(ids.begin(), ids.end(), atom.id) - ids.begin();
        operand.strides[static_cast<std::size_t>(at)] = atom.stride;
      }
      made.operands.push_back(std::move(operand));
    }
    return made;
  }

  // A word means one family of numbers, wherever it stands.
  Result<void> check_families() {
    if (!has_all()) return {};
    for (const auto& [word, by_rule] : families_) {
      const std::set<std::uint64_t>* first = nullptr;
      std::uint32_t first_rule = 0;
      for (const auto& [number, numbers] : by_rule) {
        const Rule& rule = map_.parts().rules[number];
        const auto at = std::find(rule.words.begin(), rule.words.end(), word);
        if (!is_plain_number(rule, static_cast<std::size_t>(at - rule.words.begin()))) continue;
        rule_ = number;
        if (numbers.empty()) continue;
        if (*numbers.rbegin() - *numbers.begin() + 1 != numbers.size()) {
          std::uint64_t missing = *numbers.begin();
          while (numbers.contains(missing)) ++missing;
          return failed(ErrorCode::kMapIncomplete, '{' + word + "} has " + printed(numbers) + ": " +
                                                       std::to_string(missing) + " is missing");
        }
        if (first == nullptr) {
          first = &numbers;
          first_rule = number;
        } else if (*first != numbers) {
          return failed(ErrorCode::kMapIncomplete,
                        '{' + word + "} has " + printed(numbers) + ", and in rule " +
                            std::to_string(first_rule + 1) + " it has " + printed(*first) +
                            "; use another word, or put '?' before the rule if that is meant");
        }
      }
    }
    return {};
  }

  Result<void> plan_rest() {
    const MapRest rest = options_.rest.value_or(map_.parts().rest);
    // What a labelled input has besides goes nowhere, if no rule writes that label: it is not kept
    // in a file of its own.
    std::set<std::string_view> labels;
    for (const MapTarget& target : plan_.targets_) labels.insert(label_of(target.name));
    std::uint64_t count = 0;
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      if (taken_[i] != kFree || looked_up_.contains(i)) continue;
      if (rest == MapRest::kDrop) {
        plan_.dropped_.push_back({i, MapTarget::kKept});
        continue;
      }
      const std::string_view label = label_of(leaf(i).name);
      if (rest == MapRest::kError ||
          (!label.empty() && !labels.empty() && !labels.contains(label))) {
        if (count++ == 0) first = i;
        continue;
      }
      MapTarget target;
      target.name = leaf(i).name;
      target.rule = MapTarget::kKept;
      target.source = i;
      target.dtype = leaf(i).dtype;
      target.shape = leaf(i).shape;
      ++plan_.kept_;
      plan_.targets_.push_back(std::move(target));
    }
    if (count == 0) return {};
    return fail(ErrorCode::kMapUnmatched,
                "no rule takes " + in_quotes(leaf(first).name) +
                    (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string()) +
                    "; add a rule, or \"rest\": \"keep\" or \"drop\"");
  }

  // "lora" of "lora::a.b".
  static std::string_view label_of(std::string_view name) {
    const std::size_t end = name.find("::");
    return end == std::string_view::npos ? std::string_view() : name.substr(0, end);
  }

  static constexpr std::uint32_t kFree = 0xFFFFFFFF;

  const KeyMap& map_;
  const MapPlanOptions& options_;
  const char separator_;
  MapPlan plan_;
  Sizes sizes_;
  std::map<std::string, double, std::less<>> numbers_;
  std::vector<std::vector<Found>> found_;  // by rule
  std::vector<std::uint32_t> taken_;       // by leaf: the rule
  std::set<std::uint32_t> looked_up_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_by_name_;
  std::map<std::string, std::map<std::uint32_t, std::set<std::uint64_t>>> families_;
  // Of an adapter, by rule and word: the numbers that this rule and those that must be used have.
  std::map<std::pair<std::uint32_t, std::string>, std::set<std::uint64_t>> numbers_by_word_;
  std::size_t pieces_ = 0;
  std::uint64_t names_ = 0;  // that targets have
  std::uint64_t name_bytes_ = 0;
  // Of the rule that is planned.
  std::uint32_t rule_ = 0;
  std::vector<const TensorTerm*> reads_;
  std::vector<const TensorTerm*> writes_;
};

Result<MapPlan> MapPlan::make(const KeyMap& map, std::vector<MapLeaf> leaves,
                              const MapPlanOptions& options) {
  return MapPlanner(map, std::move(leaves), options).plan();
}

Result<MapPlan> MapPlan::merged(MapPlan plan) {
  std::stable_sort(
      plan.targets_.begin(), plan.targets_.end(),
      [](const MapTarget& a, const MapTarget& b) { return first_source(a) < first_source(b); });
  if (auto ok = check_names(plan.targets_); !ok) return propagate(ok);
  return plan;
}

}  // namespace espalier
