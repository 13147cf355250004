#include "files/os/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "files/os/call_scope.h"
#include "files/os/out_of_memory.h"

namespace espalier {

namespace {

// The C library reads a file for the number, at each call.
unsigned processors() {
  static const unsigned count = std::thread::hardware_concurrency();
  return count;
}

}  // namespace

unsigned thread_count(unsigned requested) {
  constexpr unsigned kMostThreads = 256;
  const unsigned wanted = requested != 0 ? requested : processors();
  return std::clamp(wanted, 1u, kMostThreads);
}

namespace {

// A task's failure: an error or an exception.
struct Failure {
  Error error;
  std::exception_ptr exception;
};

// An exception must not leave its thread. The caller's thread reports it later, because here there
// may be no memory for the report.
std::optional<Failure> run_task(const std::function<Result<void>(unsigned, std::size_t)>& task,
                                unsigned worker, std::size_t i) {
  try {
    if (auto done = task(worker, i); !done) return Failure{std::move(done.error()), nullptr};
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return Failure{out_of_memory().value(), nullptr};
  } catch (...) {
    return Failure{{}, std::current_exception()};
  }
}

}  // namespace

Result<void> parallel_for(std::size_t count, unsigned threads,
                          const std::function<Result<void>(unsigned, std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::size_t failed_at = count;
  std::optional<Failure> failure;

  const auto work = [&](unsigned worker) {
    while (!failed.load(std::memory_order_relaxed)) {
      // Tasks are handed out in order, so all tasks before a failed one have begun and will finish.
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      if (auto failed_task = run_task(task, worker, i)) {
        failed = true;
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::move(failed_task);
        }
      }
    }
  };

  const auto wanted = static_cast<unsigned>(
      std::min<std::size_t>(thread_count(threads), std::max<std::size_t>(count, 1)));
  const auto help = [&work, cancel = CallScope::current()](unsigned worker) {
    const CallScope scope(cancel);
    work(worker);
  };
  std::vector<std::thread> helpers;
  for (unsigned worker = 1; worker < wanted; ++worker) {
    try {
      helpers.emplace_back(help, worker);
    } catch (const std::exception&) {
      break;  // No more threads available; the existing ones do the work.
    }
  }
  work(0);
  for (std::thread& helper : helpers) helper.join();
  if (!failure) return {};
  if (!failure->exception) return tl::unexpected<Error>(std::move(failure->error));
  try {
    std::rethrow_exception(failure->exception);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "out of memory; use fewer threads");
  }
}

}  // namespace espalier
