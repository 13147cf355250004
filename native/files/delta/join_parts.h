// A file of a whole state, whose tensors lie in parts in other files: those of the processes of a
// job.
#ifndef ESPALIER_FILES_DELTA_JOIN_PARTS_H_
#define ESPALIER_FILES_DELTA_JOIN_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_path.h"
#include "espalier/save_options.h"
#include "espalier/value.h"

namespace espalier {

/// A part of a tensor, which is a tensor of base number `base`.
struct JoinedPart {
  std::size_t base = 0;
  TensorRef tensor;
  /// Where its first element is in the whole: a number for each axis. If each part of a tensor has
  /// one axis, they are runs of its elements in order, and one number tells where each begins.
  std::vector<std::uint64_t> offset;
};

struct JoinedTensor {
  /// Of the placeholders in the state that say its dtype and shape: several for one tensor that is
  /// at several places, at least one.
  std::vector<KeyPath> paths;
  std::vector<JoinedPart> parts;
};

/// save() of `state`, in which each of `joined` becomes the tensor that its parts make. The new
/// file refers to the chunks of parts that are chunks of the whole as well: of a part that is all
/// of the tensor, and of runs and parts along the first axis that begin at multiples of a MiB. The
/// other bytes are copied into it. The bases must lie in the folder of `path`. kInvalidArgument,
/// with the key path, for parts of another dtype, and for those that overlap, leave holes or reach
/// beyond the tensor; errors of reading, and those of save().
[[nodiscard]] Result<void> save_joined(const std::filesystem::path& path, Value state,
                                       std::span<const SaveBase> bases,
                                       std::span<const JoinedTensor> joined,
                                       const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_JOIN_PARTS_H_
