// Dotted names ("layers.0.weight") as nested dicts.
#ifndef ESPALIER_FORMAT_NEST_NAMES_H_
#define ESPALIER_FORMAT_NEST_NAMES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/detail/catalog.h"
#include "espalier/format/access.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"

namespace espalier {

/// Levels that one name can add to the tree. Stops a file of some thousand names with thousands of
/// dots each from becoming a tree of millions of nodes.
inline constexpr std::uint32_t kMaxNestedLevels = 32;

/// Whether the key of `node` is a text with a dot.
inline bool has_dotted_key(const Tables& t, const NodeRecord& node) {
  return node.key_kind == static_cast<std::uint8_t>(KeyKind::kText) &&
         table_text(t, node.key).find('.') != std::string_view::npos;
}

/// Whether a key in the state of `t` is a text with a dot. Most files have none.
inline bool has_dotted_keys(const Tables& t) {
  // All of the state stands before the children of the metadata.
  const auto state = t.nodes.first(t.nodes[kMetadataRoot].value);
  return std::any_of(state.begin(), state.end(),
                     [&t](const NodeRecord& node) { return has_dotted_key(t, node); });
}

/// The tree of `t`, which must be valid, with nested dicts: in the dicts of the state, every text
/// key is split at its dots. Nothing if no key can be split, if the result would have more nodes
/// than `limits.nodes`, or if the keys, counted wherever they are used, take more than 128 MiB and
/// four times the pool of texts: the tree as it is opens in any case.
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
