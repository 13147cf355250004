// The tree that the file _METADATA of an item of Orbax describes.
#ifndef ESPALIER_FOREIGN_ORBAX_ITEM_TREE_H_
#define ESPALIER_FOREIGN_ORBAX_ITEM_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/error.h"
#include "espalier/foreign/orbax/tree.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// A value, whose node is null until its item fills it.
struct OrbaxLeaf {
  /// The keys, joined with dots: what its array is called. Other leaves may have the same.
  std::string name;
  /// Its path in the tree, for messages.
  std::string path;
  std::string_view value_type;
  /// Without data: None, or an empty container.
  bool is_empty = false;
  std::uint32_t node = 0;
};

struct OrbaxItemTree {
  std::uint32_t root = 0;
  std::vector<OrbaxLeaf> leaves = {};
};

/// Makes the branches of `metadata`, the object of _METADATA, in `tree`. `rich` is the root of its
/// text "value_metadata_tree", which tells tuples and named tuples. `path` is that of the item.
/// kForeignInvalid for what Orbax does not write, and kLimitExceeded for a tree that is too deep.
[[nodiscard]] Result<OrbaxItemTree> read_orbax_tree(JsonRef metadata, std::optional<JsonRef> rich,
                                                    const std::string& path, const Limits& limits,
                                                    OrbaxTree& tree, Notes& notes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_ITEM_TREE_H_
