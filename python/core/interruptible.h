// Long work without the GIL, which Ctrl-C ends.
#ifndef ESPALIER_PYTHON_INTERRUPTIBLE_H_
#define ESPALIER_PYTHON_INTERRUPTIBLE_H_

#include <atomic>
#include <functional>

#include <nanobind/nanobind.h>

#include "espalier/base/error.h"
#include "espalier/native/parallel.h"

namespace espalier::python {

/// Work that reports its progress, and gives up when the flag is set.
using Work = std::function<Result<void>(const Progress& progress, const std::atomic<bool>& cancel)>;

/// Runs `work` in a thread of its own, and waits without the GIL. Looks for signals, and calls
/// `progress(done, total)` if it is not None, some twenty times a second, from the calling thread:
/// what these raise cancels the work, and is raised once it has ended.
Result<void> run_interruptibly(const nanobind::object& progress, const Work& work);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_INTERRUPTIBLE_H_
