// Maps the state that an optimizer keeps along the parameters by the map of the parameters.
//
// The moments of a parameter have its shape, so a rule that moves its elements moves theirs. Rules
// whose numbers change are another matter: docs/key-maps.md, "State along parameters".
#ifndef ESPALIER_MAP_LIFT_H_
#define ESPALIER_MAP_LIFT_H_

#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/map/key_map.h"
#include "espalier/map/plan.h"

namespace espalier {

struct LiftOptions {
  MapPlanOptions plan = {};
  /// Names before which the map's own begin, on both sides: "model" for "model.layers.0.weight".
  /// All that stands elsewhere is kept, unless it is state along a parameter.
  std::string at = {};
  /// Where state lies, in place of MapAlong's: names with {param} and {slot}, one for each side
  /// with " <-> " between them, or one for both.
  std::vector<std::string> along = {};
  /// Whether moments of parameters that a rule scales by c are scaled by 1/c and 1/c^2. Without it
  /// such a rule is an error: the learning rate is then another one for these parameters.
  bool scales_moments = false;
};

/// MapPlan::make(), and the same for what lies along the parameters. Further errors:
/// kMapInvalid for a pattern of `along`; kMapIncomplete if parameters of one target have state and
/// others do not; kMapNotInvertible for state that cannot follow its parameter. Scalars of the
/// parameters of one target must be equal: MapPlan::equals() has them.
[[nodiscard]] Result<MapPlan> plan_with_state(const KeyMap& map, std::vector<MapLeaf> leaves,
                                              const LiftOptions& options);

/// What is known of a slot by its name: exp_avg, mu, step and others.
std::optional<MapAlong::Slot> known_slot(std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_MAP_LIFT_H_
