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

#include "espalier/base/error.h"
#include "espalier/map/adapter_settings.h"
#include "espalier/map/key_map.h"
#include "espalier/map/plan.h"

namespace espalier {

/// A parameter as an optimizer of torch counts it.
struct OptimizerParam {
  /// Its number in "params", which {param#} stands for, and its name.
  std::string number;
  std::string name;
  /// The number of its group.
  std::size_t group = 0;
};

/// What stands between the two names of a text of LiftOptions::along.
inline constexpr std::string_view kAlongArrow = " <-> ";

struct LiftOptions {
  MapPlanOptions plan = {};
  /// Names before which the map's own begin, on both sides: "model" for "model.layers.0.weight".
  /// All that stands elsewhere is kept, unless it is state along a parameter.
  std::string at = {};
  /// Where state lies, in place of MapAlong's: names with {param} or {param#}, and {slot}, one for
  /// each side with " <-> " between them, or one for both.
  std::vector<std::string> along = {};
  /// The parameters of the optimizer in the order of their groups; those that {param#} stands for.
  /// MappedTrees finds them in the "param_groups" beside the state.
  std::vector<OptimizerParam> params = {};
  /// For MappedTrees, where "param_groups" has no names: those of the parameters by number. Without
  /// them the parameters of the checkpoint count in its order, if there are as many.
  std::vector<std::string> param_order = {};
  /// Names in the order in which parameters that are made get numbers; the others follow in that of
  /// the plan. MappedTrees takes it from the template.
  std::vector<std::string> made_order = {};
  /// Where the factors of an adapter lie, in place of MapLora: names with {module} and {A|B}, or
  /// the name of a framework, one for each side with " <-> " between them, or one for both. Then
  /// the leaves are an adapter of what the map reads: see plan_with_adapter().
  std::vector<std::string> lora = {};
  /// What is known of the adapter. MapPlanOptions::sizes and numbers of these words count before.
  AdapterSettings adapter = {};
  /// Whether moments of parameters that a rule scales by c are scaled by 1/c and 1/c^2. Without it
  /// such a rule is an error: the learning rate is then another one for these parameters.
  bool scales_moments = false;
};

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
