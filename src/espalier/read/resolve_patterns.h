// Gives literal patterns the meaning that key paths have.
#ifndef ESPALIER_READ_RESOLVE_PATTERNS_H_
#define ESPALIER_READ_RESOLVE_PATTERNS_H_

#include <initializer_list>
#include <span>

#include "espalier/checkpoint.h"
#include "espalier/pattern.h"

namespace espalier {

/// Lets each literal pattern match the node that NodeRef::at() finds for its text, in the first of
/// `roots` that has one: `model.layers.8.weight` becomes `model/layers/8/weight`. Other patterns
/// stay as they are.
void resolve_patterns(std::span<Pattern> patterns, std::initializer_list<NodeRef> roots);

}  // namespace espalier

#endif  // ESPALIER_READ_RESOLVE_PATTERNS_H_
