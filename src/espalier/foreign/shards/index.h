// The index of a model in several files: JSON that maps names of tensors to names of files. That of
// Keras maps groups of tensors, each to one file or to several.
#ifndef ESPALIER_FOREIGN_SHARDS_INDEX_H_
#define ESPALIER_FOREIGN_SHARDS_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// The member of the index that maps names to files.
inline constexpr char kWeightMap[] = "weight_map";
/// The key of the index's other members in the checkpoint's metadata. No shard has this name.
inline constexpr char kIndexKey[] = "index";

/// Whether a file that begins with `front` is the index of a model in several files.
bool looks_like_shard_index(ByteSpan front, std::uint64_t file_size);

/// What an index says. Movable; texts are valid as long as it lives.
struct ShardIndex {
  struct Entry {
    std::string_view tensor;  // or, if are_groups, the path of a group: "/layers/dense/vars"
    std::uint32_t file;       // position in `files`
  };

  JsonTree json;
  /// The names of the files, in the order in which they are mentioned first.
  std::vector<std::string_view> files = {};
  /// In the order of the index. A group in several files has an entry for each.
  std::vector<Entry> entries = {};
  bool are_groups = false;
};

/// The keys of a group's path, which has no empty ones.
std::vector<std::string_view> keys_of_group(std::string_view path);

/// Parses an index. kForeignInvalid if it is not JSON, has no map from texts to texts or from paths
/// to lists of them, or names a file by more than a plain name; kLimitExceeded for deep JSON and
/// paths.
[[nodiscard]] Result<ShardIndex> parse_shard_index(std::string_view text, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_INDEX_H_
