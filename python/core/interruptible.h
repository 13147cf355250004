// Long work without the GIL, which Ctrl-C ends, and so does the end of the program.
#ifndef ESPALIER_PYTHON_INTERRUPTIBLE_H_
#define ESPALIER_PYTHON_INTERRUPTIBLE_H_

#include <atomic>
#include <functional>

#include <nanobind/nanobind.h>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "files/os/parallel.h"

namespace espalier::python {

/// Lives as long as native code is on a thread's stack. Make and destroy it with the GIL. Python
/// ends its daemon threads where they next ask for the GIL, in the middle of their C++ functions,
/// which aborts the process: so end_calls() waits for all of these.
class NativeCode {
 public:
  NativeCode() noexcept;
  ~NativeCode();
  NativeCode(const NativeCode&) = delete;
  NativeCode& operator=(const NativeCode&) = delete;
};

/// The same for a function that Python calls, as its nb::call_guard. Raises SystemExit once the
/// program ends, except in the thread that ends it.
class Call {
 public:
  Call();

 private:
  NativeCode code_;
};

/// For the end of the program: cancels what other threads run interruptibly, which raises
/// SystemExit in them, and waits until no Call of theirs is left. Later Calls of theirs fail at
/// once.
void end_calls();

/// For a child after fork(), in which the other threads do not exist.
void forget_other_calls();

/// Work that reports its progress, and gives up when the flag is set.
using Work = std::function<Result<void>(const Progress& progress, const std::atomic<bool>& cancel)>;

/// Runs `work` in a thread of its own, and waits without the GIL. Looks for signals and the end of
/// the program a hundred times a second, and calls `progress(done, total)` if it is not None some
/// twenty times, from the calling thread: what these raise cancels the work, and is raised once it
/// has ended. Requests to web servers see it too: see CallScope. To be called within a Call.
Result<void> run_interruptibly(const nanobind::object& progress, const Work& work);

/// The same with a flag of the caller's, which may live longer than the call.
Result<void> run_interruptibly(const nanobind::object& progress, std::atomic<bool>& cancel,
                               const Work& work);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_INTERRUPTIBLE_H_
