// State of an optimizer that a plan keeps beside parameters that it changes.
#ifndef ESPALIER_MAP_KEPT_STATE_H_
#define ESPALIER_MAP_KEPT_STATE_H_

#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/plan.h"

namespace espalier {

/// What LiftOptions::along says if state along parameters is to stay as it is.
inline constexpr std::string_view kAlongNone = "none";

bool keeps_state(const LiftOptions& options);

/// kMapUnmatched if a plan keeps a tensor that looks like state of a parameter that it changes: one
/// of its shape that stands under the parameter's name, in whatever signs; that is called as a slot
/// beside the parameter; or under a number, if a slot is known or the numbers have the shapes of
/// half of the parameters. The result has sentences on others with such a shape, and on state that
/// keeps its number beside parameters with new names. Neither if keeps_state().
[[nodiscard]] Result<std::vector<std::string>> check_kept_state(const MapPlan& plan,
                                                                const KeyMap& map,
                                                                const LiftOptions& options);

}  // namespace espalier

#endif  // ESPALIER_MAP_KEPT_STATE_H_
