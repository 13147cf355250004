#include "interruptible.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "files/os/call_scope.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

struct State {
  explicit State(std::atomic<bool>& flag) : cancel(flag) {}

  std::mutex mutex;
  std::condition_variable ended;
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  std::optional<Result<void>> result;
  std::exception_ptr thrown;
  std::atomic<bool>& cancel;
};

void run(State& state, const Work& work) {
  std::optional<Result<void>> result;
  std::exception_ptr thrown;
  const CallScope scope(&state.cancel);
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

// All of these are used with the GIL alone.
int g_native_codes = 0;
thread_local int g_own_native_codes = 0;
std::optional<std::thread::id> g_ending_thread;

void check_not_ending() {
  if (!g_ending_thread || *g_ending_thread == std::this_thread::get_id()) return;
  PyErr_SetString(PyExc_SystemExit, "the program ends");
  throw nb::python_error();
}

}  // namespace

NativeCode::NativeCode() noexcept {
  ++g_native_codes;
  ++g_own_native_codes;
}

NativeCode::~NativeCode() {
  --g_native_codes;
  --g_own_native_codes;
}

Call::Call() { check_not_ending(); }

void end_calls() {
  g_ending_thread = std::this_thread::get_id();
  while (g_native_codes > g_own_native_codes) {
    {
      const nb::gil_scoped_release released;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void forget_other_calls() { g_native_codes = g_own_native_codes; }

Result<void> run_interruptibly(const nb::object& progress, const Work& work) {
  std::atomic<bool> cancel = false;
  return run_interruptibly(progress, cancel, work);
}

Result<void> run_interruptibly(const nb::object& progress, std::atomic<bool>& cancel,
                               const Work& work) {
  State state(cancel);
  std::thread thread;
  try {
    thread = std::thread([&] { run(state, work); });
  } catch (const std::system_error&) {
    return fail(ErrorCode::kOutOfMemory, "no thread could be started");
  }
  // A program's function may take its time: it is called less often than signals are looked for.
  constexpr int kRoundsToTell = 5;
  std::optional<nb::python_error> raised;
  std::uint64_t told = 0;
  bool has_ended = false;
  for (int round = 1; !has_ended; ++round) {
    std::uint64_t done = 0;
    std::uint64_t total = 0;
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(state.mutex);
      state.ended.wait_for(lock, std::chrono::milliseconds(10),
                           [&] { return state.result.has_value(); });
      has_ended = state.result.has_value();
      done = state.done;
      total = state.total;
    }
    if (raised) continue;
    try {
      check_not_ending();
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress.is_none() && done != told && (has_ended || round % kRoundsToTell == 0)) {
        progress(done, total);
        told = done;
      }
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
      cancel = true;
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
