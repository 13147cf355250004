#include "interruptible.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace espalier::python {

namespace nb = nanobind;

namespace {

struct State {
  std::mutex mutex;
  std::condition_variable ended;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::optional<Result<void>> result;
  std::exception_ptr thrown;
  std::atomic<bool> cancel = false;
};

void run(State& state, const Work& work) {
  std::optional<Result<void>> result;
  std::exception_ptr thrown;
  try {
    result = work(
        [&state](std::uint64_t done, std::uint64_t total) {
          const std::lock_guard lock(state.mutex);
          state.done = done;
          state.total = total;
        },
        state.cancel);
  } catch (...) {
    thrown = std::current_exception();
    result = Result<void>();
  }
  const std::lock_guard lock(state.mutex);
  state.thrown = thrown;
  state.result = std::move(result);
  state.ended.notify_all();
}

}  // namespace

Result<void> run_interruptibly(const nb::object& progress, const Work& work) {
  State state;
  std::thread thread;
  try {
    thread = std::thread([&] { run(state, work); });
  } catch (const std::system_error&) {
    return fail(ErrorCode::kOutOfMemory, "no thread could be started");
  }
  std::optional<nb::python_error> raised;
  std::uint64_t told = 0;
  for (bool has_ended = false; !has_ended;) {
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(state.mutex);
      // Not wait(), whose symbol needs a newer libstdc++ than the rest.
      state.ended.wait_for(lock, std::chrono::milliseconds(50),
                           [&] { return state.result.has_value(); });
      has_ended = state.result.has_value();
      done = state.done;
      total = state.total;
    }
    if (raised) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress.is_none() && done != told) progress(done, total);
      told = done;
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
      state.cancel = true;
    }
  }
  {
    const nb::gil_scoped_release released;
    thread.join();
  }
  if (raised) throw nb::python_error(std::move(*raised));
  if (state.thrown) std::rethrow_exception(state.thrown);
  return std::move(*state.result);
}

}  // namespace espalier::python
