// State of an optimizer that a plan keeps beside parameters that it changes.
#ifndef ESPALIER_MAP_KEPT_STATE_H_
#define ESPALIER_MAP_KEPT_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/plan.h"

namespace espalier {

/// What LiftOptions::along says if state along parameters is to stay as it is.
inline constexpr std::string_view kAlongNone = "none";

bool keeps_state(const LiftOptions& options);

/// A tensor that a plan keeps as it is, though it has the shape of a parameter that the plan
/// changes and stands where an optimizer keeps state of it: under the parameter's name, or under a
/// number and the name of a slot. An optimizer would load it for the new parameter without a word.
struct KeptState {
  std::uint32_t leaf = 0;
  /// The leaf of the parameter, and the name for LiftOptions::along: "optim.state.{param}.{slot}".
  std::uint32_t parameter = 0;
  std::string along;
};

/// The first of them. `prefix` stands before the names of parameters, and `separator` between
/// segments.
std::optional<KeptState> find_kept_state(const MapPlan& plan, std::string_view prefix,
                                         char separator);

/// kMapUnmatched if there is one, unless keeps_state().
[[nodiscard]] Result<void> check_kept_state(const MapPlan& plan, const KeyMap& map,
                                            const LiftOptions& options);

}  // namespace espalier

#endif  // ESPALIER_MAP_KEPT_STATE_H_
