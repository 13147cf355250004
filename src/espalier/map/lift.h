// Maps the state that an optimizer keeps along the parameters by the map of the parameters.
//
// The moments of a parameter have its shape, so a rule that moves its elements moves theirs. Rules
// whose numbers change are another matter: docs/key-maps.md, "State along parameters".
#ifndef ESPALIER_MAP_LIFT_H_
#define ESPALIER_MAP_LIFT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/adapter_settings.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/plan.h"

namespace espalier {

/// What stands between the two names of a text of LiftOptions::along.
inline constexpr std::string_view kAlongArrow = " <-> ";

/// MapPlan::make(), and the same for what lies along the parameters, or what plan_with_adapter()
/// makes if `lora` is given, or the map names factors that are among the leaves. Further errors:
/// kMapInvalid for a pattern of `along`; kMapIncomplete if parameters of one target have state and
/// others do not; kMapNotInvertible for state that cannot follow its parameter; kMapUndetermined
/// for a number that is none of `params`; kMapData if a target is made of parameters of two groups.
/// Scalars of the parameters of one target must be equal: MapPlan::equals() has them.
[[nodiscard]] Result<MapPlan> plan_with_state(const KeyMap& map, std::vector<MapLeaf> leaves,
                                              const LiftOptions& options);

/// What is known of a slot by its name: exp_avg, mu, step and others.
std::optional<MapAlong::Slot> known_slot(std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_MAP_LIFT_H_
