// Sorts nodes by their names as people count: layer 2 before layer 10.
#ifndef ESPALIER_CLI_SELECTION_NATURAL_ORDER_H_
#define ESPALIER_CLI_SELECTION_NATURAL_ORDER_H_

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"

namespace espalier::cli {

/// Compares texts by their bytes, but runs of digits by their numbers: "a2" < "a10". Texts that are
/// the same but for leading zeros are compared by their bytes, so only equal texts are equal.
std::strong_ordering compare_naturally(std::string_view a, std::string_view b);

/// The rank of each node below `root`, by its number: containers before what they hold, int keys by
/// value and then string keys naturally. Recurses as deep as the tree, which Limits::depth bounds.
std::vector<std::uint32_t> natural_ranks(const NodeRef& root);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_NATURAL_ORDER_H_
