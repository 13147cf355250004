#include "espalier/map/kept_state.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/base/ascii.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/lift.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

// A name has N^2 stretches of segments: no more of them are looked at.
constexpr std::size_t kMostSegments = 48;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
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

class KeptStateFinder {
 public:
  KeptStateFinder(const MapPlan& plan, std::string_view prefix, char separator)
      : plan_(plan), prefix_(prefix), separator_(separator) {}

  std::optional<KeptState> find() {
    find_changed();
    if (by_name_.empty()) return std::nullopt;
    for (const MapTarget& target : plan_.targets()) {
      if (target.rule != MapTarget::kKept || target.source == MapPiece::kZeros) continue;
      const MapLeaf& leaf = plan_.leaves()[target.source];
      if (!leaf.is_tensor || leaf.shape.empty()) continue;
      auto found = named_state(target.source);
      if (!found) found = numbered_state(target.source);
      if (found) return found;
    }
    return std::nullopt;
  }

 private:
  // A parameter changes if its elements move, or if it has another name.
  void find_changed() {
    for (const MapTarget& target : plan_.targets()) {
      if (target.rule == MapTarget::kKept) continue;
      const bool is_moved = target.work != MapWork::kRename;
      for (const std::uint32_t source : target.sources()) {
        const MapLeaf& leaf = plan_.leaves()[source];
        if (!leaf.is_tensor || leaf.shape.empty()) continue;
        if (is_moved) moved_.emplace(printed(leaf.shape), source);
        if (is_moved || target.name != leaf.name) by_name_.emplace(parameter(leaf.name), source);
      }
    }
  }

  std::string_view parameter(std::string_view name) const {
    return name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

  std::string_view stretch(std::string_view name, const std::vector<std::size_t>& begins,
                           std::size_t first, std::size_t last) const {
    return name.substr(begins[first], begins[last] - 1 - begins[first]);
  }

  // "optim.state.model.w.exp_avg", of the longest parameter whose name stands in it.
  std::optional<KeptState> named_state(std::uint32_t number) const {
    const MapLeaf& leaf = plan_.leaves()[number];
    const auto begins = segments_of(leaf.name, separator_);
    const std::size_t count = begins.size() - 1;
    if (count > kMostSegments) return std::nullopt;
    for (std::size_t length = count; length-- > 1;) {
      for (std::size_t first = 0; first + length <= count; ++first) {
        const auto found = by_name_.find(stretch(leaf.name, begins, first, first + length));
        if (found == by_name_.end()) continue;
        const MapLeaf& parameter = plan_.leaves()[found->second];
        if (parameter.shape != leaf.shape || parameter.name == leaf.name) continue;
        return KeptState{number, found->second, along(leaf.name, begins, first, length, "{param}")};
      }
    }
    return std::nullopt;
  }

  // "optimizer.state.0.exp_avg": which parameter that is, only an optimizer's groups tell.
  std::optional<KeptState> numbered_state(std::uint32_t number) const {
    const MapLeaf& leaf = plan_.leaves()[number];
    const auto moved = moved_.find(printed(leaf.shape));
    if (moved == moved_.end()) return std::nullopt;
    const auto begins = segments_of(leaf.name, separator_);
    const std::size_t count = begins.size() - 1;
    if (count < 3) return std::nullopt;
    if (!known_slot(stretch(leaf.name, begins, count - 1, count))) return std::nullopt;
    if (!is_number(stretch(leaf.name, begins, count - 2, count - 1))) return std::nullopt;
    return KeptState{number, moved->second, along(leaf.name, begins, count - 2, 1, "{param#}")};
  }

  // The name with captures for the parameter and the slot.
  std::string along(std::string_view name, const std::vector<std::size_t>& begins,
                    std::size_t first, std::size_t length, std::string_view capture) const {
    std::string text;
    bool has_slot = false;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      if (i > first && i < first + length) continue;
      if (!text.empty()) text += separator_;
      const std::string_view segment = stretch(name, begins, i, i + 1);
      if (i == first) {
        text += capture;
      } else if (!has_slot && known_slot(segment)) {
        text += "{slot}";
        has_slot = true;
      } else {
        text += segment;
      }
    }
    return text;
  }

  const MapPlan& plan_;
  std::string_view prefix_;
  char separator_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::unordered_map<std::string, std::uint32_t> moved_;  // by printed shape
};

}  // namespace

bool keeps_state(const LiftOptions& options) {
  return options.along.size() == 1 && options.along.front() == kAlongNone;
}

std::optional<KeptState> find_kept_state(const MapPlan& plan, std::string_view prefix,
                                         char separator) {
  return KeptStateFinder(plan, prefix, separator).find();
}

Result<void> check_kept_state(const MapPlan& plan, const KeyMap& map, const LiftOptions& options) {
  if (keeps_state(options)) return {};
  const char separator = map.parts().side(!options.plan.reverse).separator();
  const std::string prefix = options.at.empty() ? std::string() : options.at + separator;
  const auto kept = find_kept_state(plan, prefix, separator);
  if (!kept) return {};
  return fail(ErrorCode::kMapUnmatched,
              in_quotes(plan.leaves()[kept->leaf].name) + " looks like state of " +
                  in_quotes(plan.leaves()[kept->parameter].name) +
                  ", which the map changes, and would stay as it is; take it along with --along " +
                  in_quotes(kept->along) + ", or keep it with --along none");
}

}  // namespace espalier
