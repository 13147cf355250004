// The tree of a model whose groups lie in several files, as Keras shards weights.
#ifndef ESPALIER_FOREIGN_SHARDS_GROUP_TREE_H_
#define ESPALIER_FOREIGN_SHARDS_GROUP_TREE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/foreign/shards/index.h"
#include "espalier/foreign/shards/joined_shards.h"
#include "espalier/notes.h"

namespace espalier {

/// A node of the joined tree, and its key.
struct GroupNode {
  enum class Type : std::uint8_t {
    kDict,     // joined of dicts in the files
    kShard,    // what one file has there, with all below it
    kMissing,  // a group whose files cannot be opened
  };

  std::string_view key = {};
  Type type = Type::kDict;
  // Of kShard.
  std::uint32_t shard = 0;
  std::uint32_t number = 0;
  std::vector<GroupNode> children = {};
};

/// Joins the states of `shards`, whose keys are those of the files, and then calls layers what the
/// metadata of any file call them. Adds notes, and the first of what the index and the files do not
/// agree about to `contradiction`. Keys are valid as long as the index and the shards.
[[nodiscard]] GroupNode join_groups(const ShardIndex& index, std::span<const Shard> shards,
                                    Notes& notes, std::optional<Error>& contradiction);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_GROUP_TREE_H_
