#include "files/os/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
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

// While it lives, the calling thread does work of a Run, or for a thread that does.
class InsideRun {
 public:
  explicit InsideRun(bool is_inside = true) : before_(inside_) { inside_ |= is_inside; }
  ~InsideRun() { inside_ = before_; }
  InsideRun(const InsideRun&) = delete;
  InsideRun& operator=(const InsideRun&) = delete;

  static bool is_here() { return inside_; }

 private:
  static inline thread_local bool inside_ = false;
  const bool before_;
};

// The calls that a Run makes. It is a stranger's code: calls too many do nothing, and so do those
// that come after it has returned. Those that it did not wait for are waited for.
class Calls {
 public:
  explicit Calls(unsigned most) : most_(most) {}

  // The number of the worker, if there is work left for one.
  std::optional<unsigned> begin() {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || begun_ == most_) return std::nullopt;
    return begun_++;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }
  void close() {
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    changed_.wait(lock, [this] { return ended_ == begun_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const unsigned most_;
  unsigned begun_ = 0;
  unsigned ended_ = 0;
  bool is_closed_ = false;
};

// Calls `work(worker)` through a Run, and again for what it left.
template <class Work>
void work_on(const Threads::Run& run, unsigned workers, const Work& work) {
  const auto calls = std::make_shared<Calls>(workers);
  std::exception_ptr thrown;
  try {
    run(workers, [calls, work] {
      // A pool that helps while one of its tasks waits may come here again on the same thread. The
      // work below on the stack may hold a lock or a turn that this one would wait for.
      static thread_local bool is_working = false;
      if (is_working) return;
      const auto worker = calls->begin();
      if (!worker) return;
      is_working = true;
      {
        const InsideRun inside;
        work(*worker);
      }
      is_working = false;
      calls->end();
    });
  } catch (...) {
    thrown = std::current_exception();
  }
  calls->close();
  if (thrown) std::rethrow_exception(thrown);
  work(0);
}

// The same on threads that are started for it, and this one.
template <class Work>
void work_on_new_threads(unsigned workers, const Work& work) {
  std::vector<std::thread> helpers;
  for (unsigned worker = 1; worker < workers; ++worker) {
    try {
      helpers.emplace_back(work, worker);
    } catch (const std::exception&) {
      break;  // No more threads available; the existing ones do the work.
    }
  }
  work(0);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

Result<void> parallel_for(std::size_t count, const Threads& threads,
                          const std::function<Result<void>(unsigned, std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::size_t failed_at = count;
  std::optional<Failure> failure;

  const auto work = [&, cancel = CallScope::current(),
                     is_inside = InsideRun::is_here()](unsigned worker) {
    const CallScope scope(cancel);
    const InsideRun inside(is_inside);
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

  const auto workers = static_cast<unsigned>(
      std::min<std::size_t>(thread_count(threads), std::max<std::size_t>(count, 1)));
  // Threads of a program's pool that wait for work of the same pool may wait for ever.
  if (workers == 1 || (threads.run && InsideRun::is_here())) {
    work(0);
  } else if (threads.run) {
    work_on(threads.run, workers, work);
  } else {
    work_on_new_threads(workers, work);
  }
  if (!failure) return {};
  if (!failure->exception) return tl::unexpected<Error>(std::move(failure->error));
  try {
    std::rethrow_exception(failure->exception);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "out of memory; use fewer threads");
  }
}

}  // namespace espalier
