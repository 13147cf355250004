#include "espalier/map/kept_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "espalier/base/ascii.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/lift.h"
#include "espalier/map/map_error.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

// A name has N^2 stretches of segments: no more of them are looked at.
constexpr std::size_t kMostSegments = 48;

// Where the last digits of a segment begin.
std::size_t digits_of(std::string_view segment) {
  std::size_t at = segment.size();
  while (at > 0 && is_digit(segment[at - 1])) --at;
  return at;
}

// Keys that are made of names often have other signs for the dots.
std::string with_dots(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c == '_' || c == '/' || c == '-') c = '.';
  }
  return text;
}

// The places where the segments of a name begin, and one behind its end.
std::vector<std::size_t> segments_of(std::string_view name, char separator) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == separator) begins.push_back(i + 1);
  }
  begins.push_back(name.size() + 1);
  return begins;
}

// "exp_avg" of "weight_exp_avg".
bool ends_in_slot(std::string_view segment) {
  for (;;) {
    if (known_slot(segment)) return true;
    const std::size_t sign = segment.find_first_of("_-");
    if (sign == std::string_view::npos) return false;
    segment.remove_prefix(sign + 1);
  }
}

// Those of torch's Adafactor, and of that of transformers.
bool is_factored_slot(std::string_view segment) {
  constexpr std::string_view kSlots[] = {"row_var", "col_var", "exp_avg_sq_row", "exp_avg_sq_col"};
  return std::find(std::begin(kSlots), std::end(kSlots), segment) != std::end(kSlots);
}

// A tensor that a plan keeps as it is, though it has the shape of a parameter that it changes.
struct KeptState {
  std::uint32_t leaf;
  std::uint32_t parameter;
  std::string along;  // the name for LiftOptions::along; empty if none takes it
};

class KeptStateFinder {
 public:
  KeptStateFinder(const MapPlan& plan, std::string_view prefix, char separator)
      : plan_(plan), prefix_(prefix), separator_(separator) {}

  // What stands where an optimizer keeps state of a parameter: an optimizer would load it for the
  // new parameter without a word.
  std::optional<KeptState> find() {
    find_changed();
    if (by_name_.empty()) return std::nullopt;
    std::vector<std::uint32_t> kept;
    for (const MapTarget& target : plan_.targets()) {
      if (target.rule != MapTarget::kKept || target.source == MapPiece::kZeros) continue;
      const MapLeaf& leaf = plan_.leaves()[target.source];
      if (!leaf.is_tensor || leaf.shape.empty()) continue;
      auto found = named_state(target.source);
      if (!found) found = factored_state(target.source);
      if (!found) found = state_beside(target.source);
      if (!found) found = numbered_state(target.source);
      if (found) return found;
      kept.push_back(target.source);
    }
    return numbered_group(kept);
  }

  // Sentences on the others that have such a shape, or a number, and perhaps are state.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // A parameter changes if its elements move, or if it has another name.
  void find_changed() {
    std::unordered_set<std::uint32_t> known;
    for (const MapTarget& target : plan_.targets()) {
      if (target.rule == MapTarget::kKept) continue;
      const bool is_moved = !keeps_elements(target, plan_.leaves());
      for (const std::uint32_t source : target.sources()) {
        const MapLeaf& leaf = plan_.leaves()[source];
        if (!leaf.is_tensor || leaf.shape.empty()) continue;
        const std::string shape = printed(leaf.shape);
        if (known.insert(source).second) ++shapes_[shape];
        if (is_moved) moved_.emplace(shape, source);
        if (!is_moved && target.name == leaf.name) continue;
        is_renamed_ = is_renamed_ || target.name != leaf.name;
        by_name_.emplace(with_dots(leaf.name), source);
        if (leaf.name.starts_with(prefix_)) {
          by_name_.emplace(with_dots(std::string_view(leaf.name).substr(prefix_.size())), source);
        }
        by_place_.emplace(place_of(leaf) + shape, source);
      }
    }
    parameters_ = known.size();
  }

  // The container of a leaf, with the separator behind it.
  std::string place_of(const MapLeaf& leaf) const {
    return leaf.name.substr(0, leaf.name.rfind(separator_) + 1);
  }

  static std::string_view stretch(std::string_view name, const std::vector<std::size_t>& begins,
                                  std::size_t first, std::size_t last) {
    return name.substr(begins[first], begins[last] - 1 - begins[first]);
  }

  // "optim.state.model.w.exp_avg", of the longest parameter whose name stands in it.
  std::optional<KeptState> named_state(std::uint32_t number) const {
    const MapLeaf& leaf = plan_.leaves()[number];
    const auto begins = segments_of(leaf.name, separator_);
    const std::size_t count = begins.size() - 1;
    if (count > kMostSegments) return std::nullopt;
    const std::string dotted = with_dots(leaf.name);
    for (std::size_t length = count + 1; length-- > 1;) {
      for (std::size_t first = 0; first + length <= count; ++first) {
        const auto found =
            by_name_.find(std::string(stretch(dotted, begins, first, first + length)));
        if (found == by_name_.end()) continue;
        const MapLeaf& parameter = plan_.leaves()[found->second];
        if (parameter.shape != leaf.shape || parameter.name == leaf.name) continue;
        const bool is_exact = std::string_view(parameter.name)
                                  .ends_with(stretch(leaf.name, begins, first, first + length));
        return KeptState{number, found->second,
                         is_exact ? along(leaf.name, begins, first, length, "{param}") : ""};
      }
    }
    return std::nullopt;
  }

  // Of Adafactor: sums of the rows and of the columns of a parameter, which have one of its axes.
  std::optional<KeptState> factored_state(std::uint32_t number) const {
    const MapLeaf& leaf = plan_.leaves()[number];
    const auto begins = segments_of(leaf.name, separator_);
    const std::size_t count = begins.size() - 1;
    if (count < 2 || count > kMostSegments) return std::nullopt;
    if (!is_factored_slot(stretch(leaf.name, begins, count - 1, count))) return std::nullopt;
    for (const auto& [shape, source] : moved_) {
      const auto& sizes = plan_.leaves()[source].shape;
      const bool fits = std::all_of(leaf.shape.begin(), leaf.shape.end(), [&](std::uint64_t size) {
        return size == 1 || std::find(sizes.begin(), sizes.end(), size) != sizes.end();
      });
      if (!fits) continue;
      const bool is_numbered = digits_of(stretch(leaf.name, begins, count - 2, count - 1)) == 0;
      return KeptState{number, source,
                       is_numbered ? along(leaf.name, begins, count - 2, 1, "{param#}") : ""};
    }
    return std::nullopt;
  }

  // "a.exp_avg" beside "a.weight".
  std::optional<KeptState> state_beside(std::uint32_t number) const {
    const MapLeaf& leaf = plan_.leaves()[number];
    const std::string place = place_of(leaf);
    const auto found = by_place_.find(place + printed(leaf.shape));
    if (found == by_place_.end()) return std::nullopt;
    if (!ends_in_slot(std::string_view(leaf.name).substr(place.size()))) return std::nullopt;
    return KeptState{number, found->second, {}};
  }

  // "optimizer.state.0.exp_avg": which parameter that is, only an optimizer's groups tell.
  std::optional<KeptState> numbered_state(std::uint32_t number) {
    const MapLeaf& leaf = plan_.leaves()[number];
    const auto moved = moved_.find(printed(leaf.shape));
    const auto begins = segments_of(leaf.name, separator_);
    const std::size_t count = begins.size() - 1;
    if (count > kMostSegments) return std::nullopt;
    bool has_slot = false;
    std::optional<std::size_t> position;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view segment = stretch(leaf.name, begins, i, i + 1);
      has_slot = has_slot || known_slot(segment);
      const std::size_t digits = digits_of(segment);
      if (digits == segment.size()) continue;
      if (digits == 0) position = i;
      // All that differ in this number.
      std::string others = leaf.name.substr(0, begins[i] + digits);
      others += '#';
      groups_[others + leaf.name.substr(begins[i + 1] - 1)].push_back(number);
    }
    if (!has_slot || !position) return std::nullopt;
    std::string place = along(leaf.name, begins, *position, 1, "{param#}");
    if (moved != moved_.end()) return KeptState{number, moved->second, std::move(place)};
    if (is_renamed_ && numbered_.empty()) {
      numbered_ = in_quotes(leaf.name) +
                  " keeps its number, and parameters have new names; in a model that has them in "
                  "another order it is of another one: --along " +
                  in_quotes(place) + " with --like";
    }
    return std::nullopt;
  }

  // "opt.0.own": numbers with the shapes of at least half of the parameters.
  std::optional<KeptState> numbered_group(const std::vector<std::uint32_t>& kept) {
    std::optional<KeptState> first;  // in the order of the leaves
    for (const auto& [name, leaves] : groups_) {
      if (leaves.size() < 2 || leaves.size() * 2 < parameters_) continue;
      std::unordered_map<std::string, std::uint32_t> counts;
      const std::uint32_t* state = nullptr;
      bool has_others = false;
      for (const std::uint32_t& leaf : leaves) {
        const std::string shape = printed(plan_.leaves()[leaf].shape);
        const auto all = shapes_.find(shape);
        has_others = has_others || all == shapes_.end() || ++counts[shape] > all->second;
        if (state == nullptr && moved_.contains(shape)) state = &leaf;
      }
      if (has_others || state == nullptr || (first && first->leaf <= *state)) continue;
      const MapLeaf& leaf = plan_.leaves()[*state];
      const auto begins = segments_of(leaf.name, separator_);
      const auto at = static_cast<std::size_t>(
          std::upper_bound(begins.begin(), begins.end(), name.rfind('#')) - begins.begin() - 1);
      const bool is_number = digits_of(stretch(leaf.name, begins, at, at + 1)) == 0;
      first = KeptState{*state, moved_.at(printed(leaf.shape)),
                        is_number ? along(leaf.name, begins, at, 1, "{param#}") : ""};
    }
    if (!first) write_note(kept);
    if (!numbered_.empty()) notes_.push_back(std::move(numbered_));
    return first;
  }

  void write_note(const std::vector<std::uint32_t>& kept) {
    std::size_t count = 0;
    std::string end;
    for (const std::uint32_t number : kept) {
      const MapLeaf& leaf = plan_.leaves()[number];
      const auto moved = moved_.find(printed(leaf.shape));
      if (leaf.shape.size() < 2 || moved == moved_.end() || count++ > 0) continue;
      notes_.push_back(in_quotes(leaf.name));
      end = " has the shape of " + in_quotes(plan_.leaves()[moved->second].name) +
            ", which the map changes, and stays as it is; if it is state of that, it is wrong "
            "now: --along takes state along";
    }
    if (count == 0) return;
    if (count > 1) notes_.back() += " (and " + std::to_string(count - 1) + " more)";
    notes_.back() += end;
  }

  // The name with captures for the parameter and the slot: a known one, or else the segment behind
  // the parameter, or before it.
  std::string along(std::string_view name, const std::vector<std::size_t>& begins,
                    std::size_t first, std::size_t length, std::string_view capture) const {
    const std::size_t count = begins.size() - 1;
    std::size_t slot = first + length < count ? count - 1 : first > 0 ? first - 1 : count;
    for (std::size_t i = count; i-- > 0;) {
      const bool is_param = i >= first && i < first + length;
      if (!is_param && known_slot(stretch(name, begins, i, i + 1))) slot = i;
    }
    // "ema.{param}", which has one slot.
    if (capture == "{param}" && slot < count &&
        !known_slot(stretch(name, begins, slot, slot + 1))) {
      slot = count;
    }
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > first && i < first + length) continue;
      if (!text.empty()) text += separator_;
      text += i == first  ? capture
              : i == slot ? std::string_view("{slot}")
                          : stretch(name, begins, i, i + 1);
    }
    return text;
  }

  const MapPlan& plan_;
  std::string_view prefix_;
  char separator_;
  std::vector<std::string> notes_;
  std::string numbered_;
  bool is_renamed_ = false;
  std::size_t parameters_ = 0;
  std::unordered_map<std::string, std::uint32_t> by_name_;   // with dots
  std::unordered_map<std::string, std::uint32_t> by_place_;  // and shape
  std::unordered_map<std::string, std::uint32_t> moved_;     // by printed shape
  std::unordered_map<std::string, std::uint32_t> shapes_;    // of all parameters
  std::unordered_map<std::string, std::vector<std::uint32_t>> groups_;
};

}  // namespace

bool keeps_state(const LiftOptions& options) {
  return options.along.size() == 1 && options.along.front() == kAlongNone;
}

Result<std::vector<std::string>> check_kept_state(const MapPlan& plan, const KeyMap& map,
                                                  const LiftOptions& options) {
  if (keeps_state(options)) return std::vector<std::string>();
  const char separator = map.parts().side(!options.plan.reverse).separator();
  const std::string prefix = options.at.empty() ? std::string() : options.at + separator;
  KeptStateFinder finder(plan, prefix, separator);
  const auto kept = finder.find();
  if (!kept) return finder.notes();
  return fail(ErrorCode::kMapUnmatched,
              in_quotes(plan.leaves()[kept->leaf].name) + " looks like state of " +
                  in_quotes(plan.leaves()[kept->parameter].name) +
                  ", which the map changes, and would stay as it is; " +
                  (kept->along.empty()
                       ? "--along takes it if it has the name of the parameter as it is; rename it"
                       : "take it along with --along " + in_quotes(kept->along)) +
                  ", or keep it with --along none");
}

}  // namespace espalier
