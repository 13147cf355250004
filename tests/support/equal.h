// Exact equality of state trees.
#ifndef ESPALIER_TESTS_SUPPORT_EQUAL_H_
#define ESPALIER_TESTS_SUPPORT_EQUAL_H_

#include <string>

#include "espalier/value.h"

namespace espalier::testing {

/// The first difference between two trees in the order of a walk, as "in <key path>: what differs";
/// empty if there is none. Nothing is forgiven: kinds, labels (an empty one is one), the order of
/// keys, every bit of every number, the tensors' dtypes, shapes, names and bytes, and which nodes
/// share a tensor. Reads produced tensors whole.
std::string first_difference(const Value& a, const Value& b);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_EQUAL_H_
