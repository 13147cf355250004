// From flat names ("layers.0.weight") to a nested tree.
#ifndef ESPALIER_FOREIGN_NESTING_H_
#define ESPALIER_FOREIGN_NESTING_H_

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/tree/value.h"

namespace espalier {

/// Nests a dict by splitting its keys at every '.': the segments become text keys of nested dicts,
/// also where they are digits or empty. So the segments on the way to a value, joined with '.', are
/// the key it had, and flattening the result gives the same names again. Children keep the order in
/// which `flat` first mentions them. The root keeps its label.
///
/// kNameCollision, naming both, if a key is also the beginning of another ("a" and "a.b");
/// kWrongKind if `flat` is not a dict or has an int key; kInvalidTree if a key occurs twice;
/// kLimitExceeded if a key has more segments than `limits.depth`. Takes n log n time.
Result<Value> nest_dotted(const Value& flat, const Limits& limits = {});

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NESTING_H_
