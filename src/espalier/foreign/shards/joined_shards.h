// Joins the checkpoints in the files of one model to one checkpoint.
#ifndef ESPALIER_FOREIGN_SHARDS_JOINED_SHARDS_H_
#define ESPALIER_FOREIGN_SHARDS_JOINED_SHARDS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/shards/index.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/limits.h"

namespace espalier {

/// One file of a model: opened, or why it was not.
struct Shard {
  std::uint64_t length = 0;
  std::optional<Checkpoint> checkpoint = std::nullopt;
  std::optional<Error> problem = std::nullopt;
};

/// What a shard must be to be joined: nothing, or why it is not.
std::optional<Error> defect_of_shard(const Checkpoint& shard);

/// The parts of one catalog: a dict of all tensors in the order of the index, and the metadata of
/// the index and of each shard. `shards` are those of `index.files`, and become the files from 1
/// on; file 0, the index, has `index_length` bytes. What the index and the shards do not agree
/// about is in the notes. kForeignInvalid for names that come twice, kLimitExceeded.
[[nodiscard]] Result<ForeignParts> join_shards(const ShardIndex& index, std::uint64_t index_length,
                                               std::span<const Shard> shards, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_JOINED_SHARDS_H_
