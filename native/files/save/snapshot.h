// A copy of a state that does not change with the program's tensors.
#ifndef ESPALIER_FILES_SAVE_SNAPSHOT_H_
#define ESPALIER_FILES_SAVE_SNAPSHOT_H_

#include <atomic>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/value.h"

namespace espalier {

/// Copies the tensors that are in memory, each once, with `threads`, into one block of memory. Ties
/// stay; producers, readers and placeholders are shared. kOutOfMemory; kCancelled soon after
/// `cancel`, if it is not null, is set.
[[nodiscard]] Result<Value> snapshot(Value state, const Threads& threads,
                                     const std::atomic<bool>* cancel = nullptr);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_SNAPSHOT_H_
