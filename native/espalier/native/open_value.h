// A state tree as an open checkpoint, without a file: its tensors are read from their TensorData.
#ifndef ESPALIER_NATIVE_OPEN_VALUE_H_
#define ESPALIER_NATIVE_OPEN_VALUE_H_

#include "espalier/base/error.h"
#include "espalier/native/checkpoint_file.h"
#include "espalier/tree/value.h"

namespace espalier {

/// Opens a tree, and a dict without tensors as its metadata. Whatever reads a checkpoint can then
/// read it: find(), slice(), diffs, statistics. Tensors are produced when they are read, a chunk at
/// a time and from several threads, and have no hashes. kInvalidTree for a tree that no checkpoint
/// can hold, and for a streamed tensor, which could only be read once. Uses the options for limits,
/// threads and `nest`, and ignores the others.
[[nodiscard]] Result<CheckpointFile> open_value(const Value& state, const Value& metadata,
                                                const OpenFileOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_NATIVE_OPEN_VALUE_H_
