// Makes the targets of one instance of a rule that are gathered or computed, and checks what must
// be equal or zero.
#ifndef ESPALIER_MAP_INSTANCE_TARGETS_H_
#define ESPALIER_MAP_INSTANCE_TARGETS_H_

#include "espalier/error.h"
#include "espalier/map/planning.h"
#include "espalier/map/rule_leaves.h"

namespace espalier {

/// Adds what the rule makes to the plan. Errors are those of MapPlan::make().
[[nodiscard]] Result<void> plan_instance(const PlannedRule& rule, Instance& instance);

}  // namespace espalier

#endif  // ESPALIER_MAP_INSTANCE_TARGETS_H_
