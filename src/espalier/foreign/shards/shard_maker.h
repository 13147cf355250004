// Makes the made files of one shard from the files of the whole set.
#ifndef ESPALIER_FOREIGN_SHARDS_SHARD_MAKER_H_
#define ESPALIER_FOREIGN_SHARDS_SHARD_MAKER_H_

#include <cstdint>
#include <memory>

#include "espalier/format/file_maker.h"

namespace espalier {

/// A maker that does what `maker` does, and reads file `file` where that one reads file 0: the only
/// file of a shard that is not made itself.
std::shared_ptr<const FileMaker> move_maker(std::shared_ptr<const FileMaker> maker,
                                            std::uint32_t file);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_SHARD_MAKER_H_
