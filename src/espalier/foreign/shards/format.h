// The row of models in several files.
#ifndef ESPALIER_FOREIGN_SHARDS_FORMAT_H_
#define ESPALIER_FOREIGN_SHARDS_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

// The second one is that of a variant: model.safetensors.index.fp16.json. The third is Keras's.
inline constexpr FormatEnding kShardedEndings[] = {
    {".index.json"}, {".index.*.json"}, {".weights.json"}};
inline constexpr FormatInfo kShardedFormat{
    .name = "sharded", .title = "sharded", .endings = kShardedEndings, .needs_folder = true};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_FORMAT_H_
