#include "espalier/map/lift.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/map/adapter.h"
#include "espalier/map/blocks.h"
#include "espalier/map/kept_state.h"
#include "espalier/map/map_error.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

// Stands for the parameter in a name that is taken apart: no key of a checkpoint's has it.
constexpr char kHole = '\1';

struct NamedSlot {
  std::string_view name;
  MapAlong::Slot slot;
};

// As torch.optim (2.5), optax and DeepSpeed call them. Adafactor's sums over rows and columns are
// none: they do not have the shape of their parameter.
constexpr NamedSlot kSlots[] = {
    {"acc_delta", MapAlong::Slot::kUpdate2},  // Adadelta
    {"ax", MapAlong::Slot::kWeight},          // ASGD: the average
    {"count", MapAlong::Slot::kScalar},
    {"ema", MapAlong::Slot::kWeight},
    {"eta", MapAlong::Slot::kScalar},  // ASGD
    {"exp_avg", MapAlong::Slot::kMoment1},
    {"exp_avg_sq", MapAlong::Slot::kMoment2},
    {"exp_inf", MapAlong::Slot::kMagnitude},  // Adamax
    {"fp32", MapAlong::Slot::kWeight},
    {"grad_avg", MapAlong::Slot::kMoment1},  // RMSprop, centered
    {"master", MapAlong::Slot::kWeight},
    {"master_param", MapAlong::Slot::kWeight},
    {"max_exp_avg_sq", MapAlong::Slot::kMoment2},
    {"momentum", MapAlong::Slot::kMoment1},
    {"momentum_buffer", MapAlong::Slot::kMoment1},
    {"mu", MapAlong::Slot::kMoment1},         // optax; of ASGD, a scalar
    {"mu_product", MapAlong::Slot::kScalar},  // NAdam
    {"nu", MapAlong::Slot::kMoment2},
    {"prev", MapAlong::Slot::kMoment1},  // Rprop: the last gradient
    {"square_avg", MapAlong::Slot::kMoment2},
    {"step", MapAlong::Slot::kScalar},
    {"step_size", MapAlong::Slot::kStepSize},  // Rprop
    {"sum", MapAlong::Slot::kMoment2},
    {"trace", MapAlong::Slot::kMoment1},
    {"variance", MapAlong::Slot::kMoment2},  // Adafactor, of vectors
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// The last part of a pattern that names a slot.
std::string slot_of(std::string_view pattern) {
  std::string found;
  while (!pattern.empty()) {
    const std::size_t end = pattern.find_first_of("./");
    const std::string_view part = pattern.substr(0, end);
    if (part.find('{') == std::string_view::npos && (found.empty() || known_slot(part))) {
      found = part;
    }
    pattern.remove_prefix(end == std::string_view::npos ? pattern.size() : end + 1);
  }
  return found;
}

}  // namespace

class MapLifter {
 public:
  MapLifter(const KeyMap& map, std::vector<MapLeaf> leaves, const LiftOptions& options)
      : map_(map),
        options_(options),
        read_separator_(map.parts().side(!options.plan.reverse).separator()),
        write_separator_(map.parts().side(options.plan.reverse).separator()) {
    plan_.leaves_ = std::move(leaves);
    plan_.rules_.resize(map.parts().rules.size());
  }

  Result<MapPlan> plan() {
    if (auto ok = read_places(); !ok) return propagate(ok);
    if (auto ok = part_leaves(); !ok) return propagate(ok);
    if (auto ok = check_places(); !ok) return propagate(ok);
    std::vector<std::string> names;
    for (const std::uint32_t leaf : parameters_) {
      names.push_back(plan_.leaves_[leaf].name.substr(prefix_.size()));
    }
    // A file of optimizer state alone has no parameters.
    const bool has_parameters = !parameters_.empty() || states_.empty();
    if (has_parameters) {
      auto made = make(parameters_, std::move(names), std::nullopt);
      if (!made) return made;
      add(
          std::move(*made), parameters_, [&](const std::string& name) { return written_at(name); },
          true);
    }
    if (auto ok = number_parameters(); !ok) return propagate(ok);
    tell_slots();
    // Without parameters, the state of known slots says what their shapes are.
    for (const auto is_turn : {is_moment, is_unknown, is_scalar}) {
      for (auto& [key, state] : states_) {
        if (!is_turn(state)) continue;
        if (auto ok = is_scalar(state) ? lift_scalars(state) : lift(state); !ok) {
          return propagate(ok);
        }
      }
    }
    for (const std::uint32_t leaf : others_) keep(leaf);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  // How names of state are written on one side.
  struct PlaceSide {
    NamePattern pattern;
    std::size_t words = 0;
    std::size_t param = 0;
    std::optional<std::size_t> slot;
    // Whether parameters have their numbers in place of names.
    bool is_numbered = false;
  };
  // A pair of `along`.
  struct Place {
    std::string text;
    PlaceSide read;
    PlaceSide write;
    // What stands before the parameter in the names that are read.
    std::string read_prefix;
    std::string slot_name;  // without a word for it: what the pattern says
  };

  // The leaves of one slot, and the names of their parameters.
  struct State {
    const Place* place = nullptr;
    std::string slot_name;
    std::optional<MapAlong::Slot> slot;
    std::vector<std::uint32_t> leaves;
    std::vector<std::string> params;
  };
  static bool is_unknown(const State& state) { return !state.slot; }
  static bool is_scalar(const State& state) { return state.slot == MapAlong::Slot::kScalar; }
  static bool is_moment(const State& state) { return !is_unknown(state) && !is_scalar(state); }
  // A target of parameters: what scalars follow.
  struct Made {
    std::string name;
    std::vector<std::string> params;
    std::uint32_t rule = 0;
  };
  // A parameter that is read.
  struct Param {
    std::vector<std::uint64_t> shape;
    // The target whose elements are those of the parameter, in its order; kMoved if there is none.
    std::size_t made = kMoved;
    // The rule that drops it.
    std::optional<std::uint32_t> dropped = std::nullopt;
  };
  static constexpr std::size_t kMoved = ~std::size_t{0};

  tl::unexpected<Error> bad_place(const std::string& text, const std::string& why) const {
    return invalid_map("\"along\": " + in_quotes(text) + ' ' + why);
  }

  Result<void> read_places() {
    std::vector<std::string> texts = options_.along;
    if (keeps_state(options_)) return {};
    if (texts.empty()) {
      const MapAlong& along = map_.parts().along;
      if (along.left.size() != along.right.size()) {
        return invalid_map("\"along\" has " + std::to_string(along.left.size()) +
                           " places on the left and " + std::to_string(along.right.size()) +
                           " on the right; write one for each on both sides");
      }
      for (std::size_t i = 0; i < along.left.size(); ++i) {
        std::string& text = texts.emplace_back(along.left[i]);
        text.append(kAlongArrow).append(along.right[i]);
      }
    }
    for (std::string& text : texts) {
      if (text.find(kAlongArrow) == std::string::npos) text += std::string(kAlongArrow) + text;
      const std::size_t arrow = text.find(kAlongArrow);
      const std::string_view left = std::string_view(text).substr(0, arrow);
      const std::string_view right = std::string_view(text).substr(arrow + kAlongArrow.size());
      const bool reads_left = !options_.plan.reverse;
      Place place;
      place.text = text;
      if (auto ok = read_side(text, reads_left ? left : right, read_separator_, place.read); !ok) {
        return ok;
      }
      if (auto ok = read_side(text, reads_left ? right : left, write_separator_, place.write);
          !ok) {
        return ok;
      }
      const std::string_view own = reads_left ? left : right;
      place.read_prefix = own.substr(0, std::min(own.find('{'), own.size()));
      if (place.read.slot.has_value() != place.write.slot.has_value()) {
        return bad_place(text, "has {slot} on one side only");
      }
      if (!place.read.slot) place.slot_name = slot_of(left);
      places_.push_back(std::move(place));
    }
    return {};
  }

  Result<void> read_side(const std::string& text, std::string_view name, char separator,
                         PlaceSide& side) const {
    side.is_numbered = name.find("{param#}") != std::string_view::npos;
    std::string pattern(name);
    replace_all(pattern, "{param#}", "{param*}");
    replace_all(pattern, "{param}", "{param...}");
    replace_all(pattern, "{slot}", "{slot*}");
    RuleContext context;
    context.left_separator = separator;
    context.right_separator = separator;
    const auto rule = parse_rule(pattern + std::string(kAlongArrow) + pattern, context);
    if (!rule) return bad_place(text, "is no pair of names: " + rule.error().message);
    const std::vector<Part>& parts = rule->side(true);
    const auto part = parts.size() == 1 ? as_plain(parts.front()) : std::nullopt;
    if (!part || !part->steps.empty() || part->tensor->names.size() != 1 || part->tensor->axes()) {
      return bad_place(text, "is no pair of names");
    }
    side.pattern = part->tensor->names.front().pattern;
    side.words = rule->words.size();
    const auto word = [&](std::string_view wanted) -> std::optional<std::size_t> {
      const auto at = std::find(rule->words.begin(), rule->words.end(), wanted);
      if (at == rule->words.end()) return std::nullopt;
      return static_cast<std::size_t>(at - rule->words.begin());
    };
    const auto param = word("param");
    if (!param) return bad_place(text, "has no {param} on each side");
    side.param = *param;
    side.slot = word("slot");
    if (side.words > (side.slot ? 2u : 1u)) {
      return bad_place(text, "has other captures than {param} and {slot}");
    }
    return {};
  }

  std::optional<MapAlong::Slot> slot_named(const std::string& name) const {
    const auto& own = map_.parts().along.slots;
    if (const auto found = own.find(name); found != own.end()) return found->second;
    return known_slot(name);
  }

  // Two optimizers may use one name for two things.
  void tell_slots() {
    for (auto& [key, state] : states_) {
      if (map_.parts().along.slots.contains(state.slot_name)) continue;
      const bool are_numbers =
          std::all_of(state.leaves.begin(), state.leaves.end(), [&](auto leaf) {
            return plan_.leaves_[leaf].is_tensor && plan_.leaves_[leaf].shape.empty();
          });
      // ASGD's is a number, and optax' a moment.
      if (state.slot_name == "mu" && are_numbers) state.slot = MapAlong::Slot::kScalar;
      // RMSprop's is one of updates that are divided by their size, and SGD's one of gradients.
      if (state.slot_name == "momentum_buffer" && states_.contains({key.first, "square_avg"})) {
        state.slot = MapAlong::Slot::kUnscaled;
      }
    }
  }

  Result<void> part_leaves() {
    if (!options_.at.empty()) prefix_ = options_.at + read_separator_;
    for (std::uint32_t i = 0; i < options_.params.size(); ++i) {
      params_by_number_.emplace(options_.params[i].number, i);
      params_by_name_.emplace(options_.params[i].name, i);
    }
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      const auto is_state = take_state(i);
      if (!is_state) return propagate(is_state);
      if (*is_state) continue;
      const bool is_parameter = plan_.leaves_[i].name.starts_with(prefix_);
      (is_parameter ? parameters_ : others_).push_back(i);
    }
    return {};
  }

  // A place that is asked for and empty would leave the state as it is, beside other parameters.
  Result<void> check_places() const {
    for (std::size_t i = 0; i < places_.size() && !options_.along.empty(); ++i) {
      const bool is_found = std::any_of(states_.begin(), states_.end(),
                                        [&](const auto& state) { return state.first.first == i; });
      if (is_found) continue;
      return fail(ErrorCode::kMapUnmatched,
                  "nothing lies along parameters as " + in_quotes(places_[i].text) +
                      " says; check the names, and whether parameters have numbers there: "
                      "{param#}");
    }
    const bool is_renumbered = std::any_of(places_.begin(), places_.end(), [](const Place& place) {
      return place.read.is_numbered || place.write.is_numbered;
    });
    if (is_renumbered && parameters_.empty() && !states_.empty()) {
      return fail(ErrorCode::kMapUndetermined,
                  "parameters have new numbers in the order in which they are made, and the "
                  "checkpoint has none; map them together with their state");
    }
    for (const std::uint32_t leaf : others_) {
      if (!is_renumbered) break;
      for (const Place& place : places_) {
        const std::string& name = plan_.leaves_[leaf].name;
        if (place.read_prefix.empty() || !name.starts_with(place.read_prefix)) continue;
        return fail(ErrorCode::kMapUnmatched,
                    in_quotes(name) + " stands among the state along parameters, and is none as " +
                        in_quotes(place.text) + " says; it would stay with the old name");
      }
    }
    if (options_.params.empty() || parameters_.empty()) return {};
    std::unordered_set<std::string_view> known;
    for (const std::uint32_t leaf : parameters_) {
      known.insert(std::string_view(plan_.leaves_[leaf].name).substr(prefix_.size()));
    }
    for (const OptimizerParam& param : options_.params) {
      if (known.contains(param.name)) continue;
      return fail(ErrorCode::kMapUnmatched,
                  "the optimizer has a parameter " + in_quotes(param.name) +
                      ", and the checkpoint has none" +
                      (options_.at.empty() ? std::string() : " below " + in_quotes(options_.at)) +
                      "; give the names in order: --param-order");
    }
    return {};
  }

  Result<bool> take_state(std::uint32_t leaf) {
    const std::string& name = plan_.leaves_[leaf].name;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const PlaceSide& side = places_[i].read;
      CaptureValues values(side.words);
      if (!side.pattern.match(name, read_separator_, values)) continue;
      std::string param = values[side.param]->text;
      if (side.is_numbered) {
        const auto found = params_by_number_.find(param);
        if (found == params_by_number_.end()) {
          return fail(ErrorCode::kMapUndetermined,
                      in_quotes(name) + " is state of parameter " + param +
                          ", whose name is not known; give the names in order: --param-order");
        }
        param = options_.params[found->second].name;
      }
      const std::string slot = side.slot ? values[*side.slot]->text : places_[i].slot_name;
      State& state = states_[{i, slot}];
      state.place = &places_[i];
      state.slot_name = slot;
      state.slot = slot_named(slot);
      state.leaves.push_back(leaf);
      state.params.push_back(std::move(param));
      return true;
    }
    return false;
  }

  // Numbers the parameters that are made, group by group.
  Result<void> number_parameters() {
    std::unordered_set<std::string_view> have_state;
    for (const auto& [key, state] : states_) {
      have_state.insert(state.params.begin(), state.params.end());
    }
    std::size_t groups = 1;
    for (const OptimizerParam& param : options_.params) groups = std::max(groups, param.group + 1);
    std::vector<std::vector<std::string>> names(groups);
    for (const Made& made : made_) {
      std::optional<std::size_t> group;
      for (const std::string& param : made.params) {
        const auto found = params_by_name_.find(param);
        // Without groups, what has no state is a buffer, or was never trained.
        if (found == params_by_name_.end() &&
            (!options_.params.empty() || !have_state.contains(param))) {
          continue;
        }
        const std::size_t own =
            found == params_by_name_.end() ? 0 : options_.params[found->second].group;
        if (group && *group != own) {
          return fail(ErrorCode::kMapData,
                      in_quotes(made.name) +
                          " is made of parameters of two groups of the optimizer, whose options "
                          "may differ");
        }
        group = own;
      }
      if (group) names[*group].push_back(made.name);
    }
    std::unordered_map<std::string_view, std::uint32_t> wanted;
    for (const std::string& name : options_.made_order) {
      wanted.emplace(name, static_cast<std::uint32_t>(wanted.size()));
    }
    const auto rank = [&](const std::string& name) {
      const auto found = wanted.find(written_at(name).name);
      return found == wanted.end() ? wanted.size() : found->second;
    };
    for (auto& group : names) {
      sort_stably(group,
                  [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
    }
    std::uint32_t number = 0;
    for (const auto& group : names) {
      for (const std::string& name : group) numbers_.emplace(name, number++);
    }
    if (!options_.params.empty()) plan_.param_groups_ = std::move(names);
    return {};
  }

  // A name, and its keys where the name of a parameter is one of them.
  struct Written {
    std::string name;
    KeyPath path;
  };

  Written written_at(const std::string& name) const {
    if (options_.at.empty()) return {name, KeyPath{Key(name)}};
    Written written{options_.at + write_separator_ + name, keys_of(options_.at, {})};
    written.path.push_back(Key(name));
    return written;
  }

  Written written_state(const State& state, const std::string& param) const {
    const PlaceSide& side = state.place->write;
    std::string text = param;
    std::optional<Key> number;
    if (side.is_numbered) {
      const auto found = numbers_.find(param);
      if (found != numbers_.end()) {
        text = std::to_string(found->second);
        number = Key(static_cast<std::int64_t>(found->second));
      }
    }
    const auto write = [&](std::string of_param) {
      CaptureValues values(side.words);
      values[side.param] = CaptureValue{0, std::move(of_param)};
      if (side.slot) values[*side.slot] = CaptureValue{0, state.slot_name};
      return side.pattern.write(values);
    };
    Written written;
    written.path = keys_of(write(std::string(1, kHole)), number ? *number : Key(text), text);
    written.name = write(std::move(text));
    return written;
  }

  // The segments of a name, of which one has a hole for `param`.
  KeyPath keys_of(std::string_view name, const Key& param, const std::string& text = {}) const {
    KeyPath keys;
    for (;;) {
      const std::size_t end = name.find(write_separator_);
      const std::string_view segment = name.substr(0, end);
      const std::size_t hole = segment.find(kHole);
      if (hole == std::string_view::npos) {
        keys.push_back(Key(segment));
      } else if (segment.size() == 1) {
        keys.push_back(param);
      } else {
        std::string key(segment);
        keys.push_back(Key(key.replace(hole, 1, text)));
      }
      if (end == std::string_view::npos) return keys;
      name.remove_prefix(end + 1);
    }
  }

  // Plans what the map makes of these leaves under these names.
  Result<MapPlan> make(const std::vector<std::uint32_t>& leaves, std::vector<std::string> names,
                       std::optional<MapAlong::Slot> slot) const {
    std::vector<MapLeaf> renamed;
    renamed.reserve(leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      renamed.push_back(plan_.leaves_[leaves[i]]);
      renamed.back().name = std::move(names[i]);
    }
    MapPlanOptions options = options_.plan;
    options.slot = slot;
    options.scales_moments = options_.scales_moments;
    return MapPlan::make(map_, std::move(renamed), options);
  }

  // Takes over a plan of some leaves, with the names that `written` gives its targets.
  template <class Write>
  void add(MapPlan made, const std::vector<std::uint32_t>& leaves, const Write& written,
           bool are_parameters) {
    const auto renumber = [&](std::uint32_t& leaf) {
      if (leaf != MapPiece::kZeros) leaf = leaves[leaf];
    };
    if (are_parameters) {
      plan_.notes_.insert(plan_.notes_.end(), made.notes_.begin(), made.notes_.end());
      note(made);
    }
    for (MapTarget& target : made.targets_) {
      renumber(target.source);
      for (MapPiece& piece : target.pieces) renumber(piece.source);
      for (MapTerm& term : target.terms) {
        for (MapOperand& operand : term.operands) renumber(operand.source);
      }
      const auto rename = [&](std::string& name) {
        Written place = written(name);
        name = std::move(place.name);
        target.paths.push_back(std::move(place.path));
      };
      rename(target.name);
      for (std::string& name : target.tied) rename(name);
      plan_.targets_.push_back(std::move(target));
    }
    for (MapEqual& equal : made.equals_) {
      renumber(equal.first);
      renumber(equal.second);
      if (equal.piece) renumber(equal.piece->source);
      plan_.equals_.push_back(std::move(equal));
    }
    for (MapLost& loss : made.losses_) {
      renumber(loss.source);
      renumber(loss.piece.source);
      plan_.losses_.push_back(std::move(loss));
    }
    for (MapPlan::Dropped dropped : made.dropped_) {
      renumber(dropped.leaf);
      plan_.dropped_.push_back(dropped);
    }
    for (std::size_t i = 0; i < made.rules_.size(); ++i) {
      plan_.rules_[i].sources += made.rules_[i].sources;
      plan_.rules_[i].targets += made.rules_[i].targets;
      plan_.rules_[i].work = std::max(plan_.rules_[i].work, made.rules_[i].work);
    }
    plan_.kept_ += made.kept_;
  }

  // Remembers parameters and what is made of them, for their state.
  void note(const MapPlan& made) {
    for (const MapLeaf& leaf : made.leaves_) known_.try_emplace(leaf.name, Param{leaf.shape});
    for (const MapTarget& target : made.targets_) {
      const bool is_renamed = keeps_elements(target, made.leaves_);
      Made all{target.name, {}, target.rule};
      for (const std::uint32_t source : target.sources()) {
        all.params.push_back(made.leaves_[source].name);
        if (is_renamed) known_[all.params.back()].made = made_.size();
      }
      made_.push_back(std::move(all));
    }
    for (const MapEqual& equal : made.equals_) {
      if (equal.piece) continue;
      known_[made.leaves_[equal.second].name].made = known_[made.leaves_[equal.first].name].made;
    }
    for (const MapPlan::Dropped& dropped : made.dropped_) {
      known_[made.leaves_[dropped.leaf].name].dropped = dropped.rule;
    }
  }

  // The parameter that a leaf of state lies along; null if only state tells what it is.
  Result<const Param*> param_of(const State& state, std::size_t i) const {
    const auto found = known_.find(state.params[i]);
    if (found != known_.end()) return &found->second;
    if (parameters_.empty()) return nullptr;
    return no_param(state, i);
  }

  tl::unexpected<Error> no_param(const State& state, std::size_t i) const {
    return fail(ErrorCode::kMapUnmatched, in_quotes(plan_.leaves_[state.leaves[i]].name) +
                                              " lies along " + in_quotes(state.params[i]) +
                                              ", and there is no such parameter");
  }

  // State of another shape than its parameter's is taken out of `state`, and keeps its elements.
  Result<void> rename_others(State& state) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < state.leaves.size(); ++i) {
      const MapLeaf& leaf = plan_.leaves_[state.leaves[i]];
      const auto param = param_of(state, i);
      if (!param) return propagate(param);
      if (*param == nullptr || (*param)->dropped || (*param)->shape == leaf.shape) {
        if (state.slot) known_.try_emplace(state.params[i], Param{leaf.shape});
        state.leaves[kept] = state.leaves[i];
        std::swap(state.params[kept++], state.params[i]);
        continue;
      }
      if ((*param)->made == kMoved) {
        return fail(ErrorCode::kMapNotInvertible,
                    in_quotes(leaf.name) + " is " + printed(leaf.shape) + " and lies along " +
                        in_quotes(state.params[i]) + " of " + printed((*param)->shape) +
                        ": state of another shape can be renamed, and the map does more");
      }
      add_whole(state, made_[(*param)->made], state.leaves[i]);
    }
    state.leaves.resize(kept);
    state.params.resize(kept);
    return {};
  }

  Result<void> lift(State& state) {
    if (auto ok = rename_others(state); !ok) return ok;
    if (state.leaves.empty()) return {};
    // Of an unknown slot it is not known what arithmetic does to it: it may be moved alone.
    const bool is_known = state.slot.has_value();
    auto made = make(state.leaves, state.params, state.slot.value_or(MapAlong::Slot::kWeight));
    if (!made) {
      made.error().message =
          in_quotes(state.slot_name) + " along the parameters: " + made.error().message;
      return propagate(made);
    }
    if (!is_known) {
      for (const MapTarget& target : made->targets_) {
        if (target.work == MapWork::kRename && is_whole(*made, target)) continue;
        return fail(ErrorCode::kMapNotInvertible,
                    in_quotes(state.slot_name) + " along the parameter " + in_quotes(target.name) +
                        " is no slot that is known; say what it is with \"slots\" in \"along\"");
      }
    }
    // A tied parameter has one state, under its first name.
    for (MapTarget& target : made->targets_) target.tied.clear();
    add(
        std::move(*made), state.leaves,
        [&](const std::string& name) { return written_state(state, name); },
        parameters_.empty() && made_.empty());
    return {};
  }

  // Whether a renamed target would be one with the shape of its parameter, too.
  bool is_whole(const MapPlan& made, const MapTarget& target) const {
    if (target.rule == MapTarget::kKept || known_.contains(made.leaves_[target.source].name)) {
      return true;
    }
    const Rule& rule = map_.parts().rules[target.rule];
    return !tensors_of(rule.left).front()->axes();
  }

  // Adds a leaf of state that goes to a target of parameters as it is.
  MapTarget& add_whole(const State& state, const Made& target, std::uint32_t leaf) {
    MapTarget made;
    Written place = written_state(state, target.name);
    made.name = std::move(place.name);
    made.paths.push_back(std::move(place.path));
    made.rule = target.rule;
    made.source = leaf;
    made.dtype = plan_.leaves_[leaf].dtype;
    made.shape = plan_.leaves_[leaf].shape;
    return plan_.targets_.emplace_back(std::move(made));
  }

  // Each target gets the scalar of its parameters, which must all have the same.
  Result<void> lift_scalars(State& state) {
    std::unordered_map<std::string_view, std::uint32_t> leaf_of;
    for (std::size_t i = 0; i < state.leaves.size(); ++i) {
      leaf_of.emplace(state.params[i], state.leaves[i]);
    }
    std::unordered_set<std::string_view> known;
    std::unordered_set<std::uint32_t> used;
    for (const Made& target : made_) {
      std::vector<std::uint32_t> found;
      const std::string* missing = nullptr;
      for (const std::string& param : target.params) {
        known.insert(param);
        const auto leaf = leaf_of.find(param);
        if (leaf == leaf_of.end()) {
          missing = &param;
        } else {
          found.push_back(leaf->second);
        }
      }
      if (found.empty()) continue;
      if (missing != nullptr) {
        return fail(ErrorCode::kMapIncomplete,
                    in_quotes(target.name) + " is made of parameters of which " +
                        in_quotes(*missing) + " has no " + in_quotes(state.slot_name) +
                        " and others have one");
      }
      for (std::size_t i = 1; i < found.size(); ++i) {
        const MapLeaf& first = plan_.leaves_[found.front()];
        const MapLeaf& other = plan_.leaves_[found[i]];
        if (first.dtype != other.dtype || first.shape != other.shape) {
          return fail(ErrorCode::kMapShape, in_quotes(first.name) + " and " +
                                                in_quotes(other.name) +
                                                " belong to one parameter: dtype or shape are "
                                                "different");
        }
        plan_.equals_.push_back({target.rule, found.front(), found[i]});
      }
      // A step that several parameters share would count each of them.
      const bool is_copy = !used.insert(found.front()).second;
      add_whole(state, target, found.front()).is_copy = is_copy;
    }
    for (std::size_t i = 0; i < state.leaves.size(); ++i) {
      const MapLeaf& leaf = plan_.leaves_[state.leaves[i]];
      const auto param = param_of(state, i);
      if (!param) return propagate(param);
      if (*param != nullptr && (*param)->dropped) {
        plan_.dropped_.push_back({state.leaves[i], *(*param)->dropped});
        continue;
      }
      if (*param == nullptr || !known.contains(state.params[i])) return no_param(state, i);
      const bool is_one = std::all_of(leaf.shape.begin(), leaf.shape.end(),
                                      [](std::uint64_t size) { return size == 1; });
      if (is_one || (*param)->made != kMoved) continue;
      return fail(ErrorCode::kMapNotInvertible,
                  in_quotes(leaf.name) + " is " + printed(leaf.shape) + ", and " +
                      in_quotes(state.slot_name) +
                      " is one number for each parameter; say what it is with \"slots\" in "
                      "\"along\"");
    }
    return {};
  }

  // What stands outside of the map stays as it is.
  void keep(std::uint32_t leaf) {
    MapTarget target;
    target.name = plan_.leaves_[leaf].name;
    target.rule = MapTarget::kKept;
    target.source = leaf;
    target.dtype = plan_.leaves_[leaf].dtype;
    target.shape = plan_.leaves_[leaf].shape;
    ++plan_.kept_;
    plan_.targets_.push_back(std::move(target));
  }

  const KeyMap& map_;
  const LiftOptions& options_;
  const char read_separator_;
  const char write_separator_;
  MapPlan plan_;
  std::vector<Place> places_;
  std::string prefix_;
  std::vector<std::uint32_t> parameters_;
  std::vector<std::uint32_t> others_;
  std::map<std::pair<std::size_t, std::string>, State> states_;
  std::vector<Made> made_;
  std::unordered_map<std::string_view, std::uint32_t> params_by_number_;  // in options_.params
  std::unordered_map<std::string_view, std::uint32_t> params_by_name_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // of parameters that are made
  std::unordered_map<std::string, Param> known_;
};

std::optional<MapAlong::Slot> known_slot(std::string_view name) {
  for (const NamedSlot& known : kSlots) {
    if (known.name == name) return known.slot;
  }
  return std::nullopt;
}

Result<MapPlan> plan_with_state(const KeyMap& map, std::vector<MapLeaf> leaves,
                                const LiftOptions& options) {
  if (!options.lora.empty() || has_factors(map, leaves, options)) {
    return plan_with_adapter(map, std::move(leaves), options);
  }
  const bool has_along = !options.along.empty() || !map.parts().along.left.empty();
  auto plan = !has_along && options.at.empty() ? MapPlan::make(map, std::move(leaves), options.plan)
                                               : MapLifter(map, std::move(leaves), options).plan();
  if (!plan) return plan;
  const auto notes = check_kept_state(*plan, map, options);
  if (!notes) return propagate(notes);
  plan->notes_.insert(plan->notes_.end(), notes->begin(), notes->end());
  return plan;
}

}  // namespace espalier
