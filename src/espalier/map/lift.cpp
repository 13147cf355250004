#include "espalier/map/lift.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "espalier/map/map_error.h"

namespace espalier {
namespace {

struct NamedSlot {
  std::string_view name;
  MapAlong::Slot slot;
};

// As torch.optim, optax and DeepSpeed call them.
constexpr NamedSlot kSlots[] = {
    {"count", MapAlong::Slot::kScalar},        {"ema", MapAlong::Slot::kWeight},
    {"exp_avg", MapAlong::Slot::kMoment1},     {"exp_avg_sq", MapAlong::Slot::kMoment2},
    {"fp32", MapAlong::Slot::kWeight},         {"master", MapAlong::Slot::kWeight},
    {"master_param", MapAlong::Slot::kWeight}, {"max_exp_avg_sq", MapAlong::Slot::kMoment2},
    {"momentum", MapAlong::Slot::kMoment1},    {"momentum_buffer", MapAlong::Slot::kMoment1},
    {"mu", MapAlong::Slot::kMoment1},          {"nu", MapAlong::Slot::kMoment2},
    {"square_avg", MapAlong::Slot::kMoment2},  {"step", MapAlong::Slot::kScalar},
    {"sum", MapAlong::Slot::kMoment2},         {"trace", MapAlong::Slot::kMoment1},
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
        read_separator_(map.side(!options.plan.reverse).separator()),
        write_separator_(map.side(options.plan.reverse).separator()) {
    plan_.leaves_ = std::move(leaves);
    plan_.rules_.resize(map.rules().size());
  }

  Result<MapPlan> plan() {
    if (auto ok = read_places(); !ok) return propagate(ok);
    part_leaves();
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
    for (auto& [key, state] : states_) {
      if (state.slot != MapAlong::Slot::kScalar) {
        if (auto ok = lift(state); !ok) return propagate(ok);
      }
    }
    for (auto& [key, state] : states_) {
      if (state.slot == MapAlong::Slot::kScalar) {
        if (auto ok = lift_scalars(state); !ok) return propagate(ok);
      }
    }
    for (const std::uint32_t leaf : others_) keep(leaf);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  // A pattern of `along`: how names of state are read and written.
  struct Place {
    std::string text;
    NamePattern read;
    NamePattern write;
    std::size_t words = 0;
    std::size_t param = 0;
    std::optional<std::size_t> slot_word;
    std::string slot_name;  // without such a word: what the pattern says
  };
  // The leaves of one slot, and the names of their parameters.
  struct State {
    const Place* place = nullptr;
    std::string slot_name;
    std::optional<MapAlong::Slot> slot;
    std::vector<std::uint32_t> leaves;
    std::vector<std::string> params;
  };
  // A target of parameters: what scalars follow.
  struct Made {
    std::string name;
    std::vector<std::string> params;
    std::uint32_t rule = 0;
  };

  tl::unexpected<Error> bad_place(const std::string& text, const std::string& why) const {
    return invalid_map("\"along\": " + in_quotes(text) + ' ' + why);
  }

  Result<void> read_places() {
    std::vector<std::string> texts = options_.along;
    if (texts.empty()) {
      const MapAlong& along = map_.along();
      if (along.left.size() != along.right.size()) {
        return invalid_map("\"along\" has " + std::to_string(along.left.size()) +
                           " places on the left and " + std::to_string(along.right.size()) +
                           " on the right; write one for each on both sides");
      }
      for (std::size_t i = 0; i < along.left.size(); ++i) {
        std::string& text = texts.emplace_back(along.left[i]);
        text.append(" <-> ").append(along.right[i]);
      }
    }
    for (std::string& text : texts) {
      if (text.find(" <-> ") == std::string::npos) text += " <-> " + std::string(text);
      std::string rule_text = text;
      replace_all(rule_text, "{param}", "{param...}");
      replace_all(rule_text, "{slot}", "{slot*}");
      RuleContext context;
      context.left_separator = map_.left().separator();
      context.right_separator = map_.right().separator();
      auto rule = parse_rule(rule_text, context);
      if (!rule) return bad_place(text, "is no pair of names: " + rule.error().message);
      Place place;
      place.text = text;
      const auto tensor_of = [](const std::vector<Part>& side) -> const TensorTerm* {
        const auto part = side.size() == 1 ? as_plain(side.front()) : std::nullopt;
        const bool is_name =
            part && part->steps.empty() && part->tensor->names.size() == 1 && !part->tensor->axes();
        return is_name ? part->tensor : nullptr;
      };
      const TensorTerm* const read = tensor_of(rule->side(!options_.plan.reverse));
      const TensorTerm* const write = tensor_of(rule->side(options_.plan.reverse));
      if (read == nullptr || write == nullptr) return bad_place(text, "is no pair of names");
      place.read = read->names.front().pattern;
      place.write = write->names.front().pattern;
      place.words = rule->words.size();
      const auto word = [&](std::string_view name) -> std::optional<std::size_t> {
        const auto at = std::find(rule->words.begin(), rule->words.end(), name);
        if (at == rule->words.end()) return std::nullopt;
        return static_cast<std::size_t>(at - rule->words.begin());
      };
      const auto param = word("param");
      if (!param || !place.read.has_word(*param) || !place.write.has_word(*param)) {
        return bad_place(text, "has no {param} on each side");
      }
      place.param = *param;
      place.slot_word = word("slot");
      if (place.words > (place.slot_word ? 2u : 1u)) {
        return bad_place(text, "has other captures than {param} and {slot}");
      }
      if (!place.slot_word) {
        place.slot_name = slot_of(text.substr(0, text.find(" <-> ")));
      } else if (!place.read.has_word(*place.slot_word) ||
                 !place.write.has_word(*place.slot_word)) {
        return bad_place(text, "has {slot} on one side only");
      }
      places_.push_back(std::move(place));
    }
    return {};
  }

  std::optional<MapAlong::Slot> slot_named(const std::string& name) const {
    const auto& own = map_.along().slots;
    if (const auto found = own.find(name); found != own.end()) return found->second;
    return known_slot(name);
  }

  void part_leaves() {
    if (!options_.at.empty()) prefix_ = options_.at + read_separator_;
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      if (take_state(i)) continue;
      const bool is_parameter = plan_.leaves_[i].name.starts_with(prefix_);
      (is_parameter ? parameters_ : others_).push_back(i);
    }
  }

  bool take_state(std::uint32_t leaf) {
    const std::string& name = plan_.leaves_[leaf].name;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      CaptureValues values(place.words);
      if (!place.read.match(name, read_separator_, values)) continue;
      const std::string slot = place.slot_word ? values[*place.slot_word]->text : place.slot_name;
      State& state = states_[{i, slot}];
      state.place = &place;
      state.slot_name = slot;
      state.slot = slot_named(slot);
      state.leaves.push_back(leaf);
      state.params.push_back(values[place.param]->text);
      return true;
    }
    return false;
  }

  std::string written_at(const std::string& name) const {
    return options_.at.empty() ? name : options_.at + write_separator_ + name;
  }

  std::string written_state(const State& state, const std::string& param) const {
    CaptureValues values(state.place->words);
    values[state.place->param] = CaptureValue{0, param};
    if (state.place->slot_word) values[*state.place->slot_word] = CaptureValue{0, state.slot_name};
    return state.place->write.write(values);
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
  template <class Written>
  void add(MapPlan made, const std::vector<std::uint32_t>& leaves, const Written& written,
           bool are_parameters) {
    const auto renumber = [&](std::uint32_t& leaf) {
      if (leaf != MapPiece::kZeros) leaf = leaves[leaf];
    };
    for (MapTarget& target : made.targets_) {
      if (are_parameters) note(made, target);
      renumber(target.source);
      for (MapPiece& piece : target.pieces) renumber(piece.source);
      for (MapTerm& term : target.terms) {
        for (MapOperand& operand : term.operands) renumber(operand.source);
      }
      target.name = written(target.name);
      for (std::string& name : target.tied) name = written(name);
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
      if (are_parameters) dropped_rules_[made.leaves_[dropped.leaf].name] = dropped.rule;
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

  // Remembers the parameters of a target, for its scalars.
  void note(const MapPlan& made, const MapTarget& target) {
    Made all{target.name, {}, target.rule};
    for (const std::uint32_t source : target.sources()) {
      const std::string& name = made.leaves_[source].name;
      if (std::find(all.params.begin(), all.params.end(), name) == all.params.end()) {
        all.params.push_back(name);
      }
    }
    made_.push_back(std::move(all));
  }

  Result<void> lift(State& state) {
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
        if (target.work == MapWork::kRename) continue;
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
        plan_.equals_.push_back({target.rule, found.front(), found[i]});
      }
      MapTarget made;
      made.name = written_state(state, target.name);
      made.rule = target.rule;
      made.source = found.front();
      // A step that several parameters share would count each of them.
      made.is_copy = !used.insert(made.source).second;
      made.dtype = plan_.leaves_[made.source].dtype;
      made.shape = plan_.leaves_[made.source].shape;
      plan_.targets_.push_back(std::move(made));
    }
    for (std::size_t i = 0; i < state.leaves.size(); ++i) {
      const auto dropped = dropped_rules_.find(state.params[i]);
      if (dropped != dropped_rules_.end()) {
        plan_.dropped_.push_back({state.leaves[i], dropped->second});
        continue;
      }
      if (known.contains(state.params[i])) continue;
      return fail(ErrorCode::kMapUnmatched, in_quotes(plan_.leaves_[state.leaves[i]].name) +
                                                " lies along " + in_quotes(state.params[i]) +
                                                ", and there is no such parameter");
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
  std::unordered_map<std::string, std::uint32_t> dropped_rules_;  // by parameter
};

std::optional<MapAlong::Slot> known_slot(std::string_view name) {
  for (const NamedSlot& known : kSlots) {
    if (known.name == name) return known.slot;
  }
  return std::nullopt;
}

Result<MapPlan> plan_with_state(const KeyMap& map, std::vector<MapLeaf> leaves,
                                const LiftOptions& options) {
  const bool has_along = !options.along.empty() || !map.along().left.empty();
  if (!has_along && options.at.empty()) return MapPlan::make(map, std::move(leaves), options.plan);
  return MapLifter(map, std::move(leaves), options).plan();
}

}  // namespace espalier
