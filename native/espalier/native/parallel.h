// Runs independent tasks on a few threads.
#ifndef ESPALIER_NATIVE_PARALLEL_H_
#define ESPALIER_NATIVE_PARALLEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "espalier/base/error.h"

namespace espalier {

/// How far long work has come: bytes done of bytes in total. Called from one thread at a time, but
/// not always the same one; it must not throw.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The threads that `requested` stands for: as many as the machine runs at once if it is 0, and
/// never more than 256.
unsigned thread_count(unsigned requested);

/// Calls `task(worker, i)` once for each i below `count`, on up to `threads` threads (0: as many as
/// the machine has); `worker` is below thread_count(threads) and tells them apart. After an error
/// no further tasks begin, and the error of the lowest i is returned: the same with any number of
/// threads. std::bad_alloc becomes kOutOfMemory, and fewer threads than asked for are no error; any
/// other exception of a task is thrown again from here, once all threads have stopped.
Result<void> parallel_for(std::size_t count, unsigned threads,
                          const std::function<Result<void>(unsigned worker, std::size_t i)>& task);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_PARALLEL_H_
