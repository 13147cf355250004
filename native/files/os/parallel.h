// Runs independent tasks on a few threads.
#ifndef ESPALIER_FILES_OS_PARALLEL_H_
#define ESPALIER_FILES_OS_PARALLEL_H_

#include <cstddef>
#include <functional>

#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// The number of threads for `requested`: 0 means every CPU. Never more than 256.
unsigned thread_count(unsigned requested);
inline unsigned thread_count(const Threads& threads) { return thread_count(threads.count); }

/// Calls `task(worker, i)` once for each i below `count`, on up to `threads` threads: of its Run,
/// if it has one and this thread does not work for a Run already. `worker` is below
/// thread_count(threads) and identifies the thread. After an error no further tasks begin, and the
/// error of the lowest i is returned, so the result does not depend on the number of threads.
/// std::bad_alloc becomes kOutOfMemory. Any other exception of a task, or of the Run, is rethrown
/// here once all threads have stopped. Starting fewer threads than requested is not an error.
[[nodiscard]] Result<void> parallel_for(
    std::size_t count, const Threads& threads,
    const std::function<Result<void>(unsigned worker, std::size_t i)>& task);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_PARALLEL_H_
