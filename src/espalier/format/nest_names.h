// Dotted names ("layers.0.weight") as nested dicts.
#ifndef ESPALIER_FORMAT_NEST_NAMES_H_
#define ESPALIER_FORMAT_NEST_NAMES_H_

#include <optional>

#include "espalier/base/limits.h"
#include "espalier/format/tables.h"

namespace espalier {

/// Levels that one name can add to the tree. Stops a file of some thousand names with thousands of
/// dots each from becoming a tree of millions of nodes.
inline constexpr std::uint32_t kMaxNestedLevels = 32;

/// The tree of `t`, which must be valid, with nested dicts: in the dicts of the state, every text
/// key is split at its dots. Nothing if no key has a dot, or if the result would have more nodes
/// than `limits.nodes`: the tree as it is opens in any case.
///
/// - Segments are text keys, also digits and empty ones. The keys on the way to a node, joined with
///   '.', are the name that it had.
/// - If a name is also the beginning of another ("a" and "a.b"), it stays a value, and the next
///   segment of the other belongs to the same key: "a" and "a.b" stand side by side.
/// - Segments beyond kMaxNestedLevels or `limits.depth` stay together in the last key.
/// - Children keep the order in which the names first mention them. Dicts "0", "1", ... stand in
///   the order of their numbers, because files list layers as 0, 1, 10, 11, 2.
///
/// The result has no tensors, chunks and shapes: those of `t` go with it, under the same numbers.
/// Takes n log n time, and n if the names are in order.
std::optional<OwnedTables> nest_names(const Tables& t, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_NEST_NAMES_H_
