#include "espalier/save_async.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

#include "espalier/file_sink.h"
#include "espalier/save.h"
#include "files/delta/find_references.h"
#include "files/os/about_file.h"
#include "files/os/file_ops.h"
#include "files/os/out_of_memory.h"
#include "files/save/async_targets.h"
#include "files/save/snapshot.h"
#include "files/save/start_async.h"

namespace espalier {

struct AsyncSave::Run {
  std::string file;  // that it saves to, for its errors
  // What the thread works on. It frees all of it before it reports the end.
  std::unique_ptr<Sink> sink;
  std::optional<Value> state;
  std::optional<SaveOptions> options;
  // The thread gives it back after it has reported the end.
  TargetPlace place;

  std::atomic<bool> cancel = false;
  std::atomic<std::uint64_t> done_bytes = 0;
  std::atomic<std::uint64_t> total_bytes = 0;

  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  Result<void> result = {};
  std::exception_ptr exception;

  std::thread thread;
  const pid_t process = ::getpid();

  bool is_of_parent() const { return process != ::getpid(); }

  void work() noexcept {
    Result<void> saved = {};
    std::exception_ptr thrown;
    try {
      place.wait();
      saved = save(*sink, *state, *options);
    } catch (...) {
      thrown = std::current_exception();
    }
    end(std::move(saved), thrown);
  }

  void end(Result<void> saved, std::exception_ptr thrown) noexcept {
    if (!saved) name_file(saved.error(), file);
    sink.reset();
    state.reset();
    options.reset();
    {
      const std::lock_guard lock(mutex);
      result = std::move(saved);
      exception = std::move(thrown);
      is_done = true;
      changed.notify_all();
    }
    // Only now: when a save returns, those that began before it are done.
    place.leave();
  }
};

// Makes a Run and its thread.
class AsyncStarter {
 public:
  /// `file` is where it saves to, or empty for a sink.
  explicit AsyncStarter(const std::string& file) : run_(std::make_unique<AsyncSave::Run>()) {
    run_->file = file;
  }

  AsyncSave fail(Error error) {
    run_->end(tl::unexpected<Error>(std::move(error)), nullptr);
    return AsyncSave(std::move(run_));
  }

  AsyncSave start(std::unique_ptr<Sink> sink, TargetPlace place, Value state, Snapshot how,
                  const SaveOptions& options) try {
    run_->sink = std::move(sink);
    run_->place = std::move(place);
    if (how == Snapshot::kCopy) {
      auto copy = snapshot(std::move(state), options.threads, options.cancel);
      if (!copy) return fail(std::move(copy.error()));
      state = std::move(*copy);
    }
    run_->state.emplace(std::move(state));
    run_->options.emplace(options);
    run_->options->cancel = &run_->cancel;
    run_->options->progress = [run = run_.get(), progress = options.progress,
                               cancel = options.cancel](std::uint64_t done, std::uint64_t total) {
      run->total_bytes = total;
      run->done_bytes = done;
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) run->cancel = true;
      if (progress) progress(done, total);
    };
    run_->thread = std::thread([run = run_.get()] { run->work(); });
    return AsyncSave(std::move(run_));
  } catch (const std::bad_alloc&) {
    return fail(out_of_memory().value());
  } catch (const std::system_error& error) {
    return fail({ErrorCode::kOutOfMemory,
                 Error::kNoOffset,
                 {},
                 "cannot start a thread: " + error.code().message()});
  } catch (...) {  // Of a Run.
    run_->end({}, std::current_exception());
    return AsyncSave(std::move(run_));
  }

 private:
  std::unique_ptr<AsyncSave::Run> run_;
};

AsyncSave::AsyncSave() noexcept = default;
AsyncSave::AsyncSave(std::unique_ptr<Run> run) noexcept : run_(std::move(run)) {}
AsyncSave::AsyncSave(AsyncSave&& other) noexcept = default;

AsyncSave& AsyncSave::operator=(AsyncSave&& other) noexcept {
  if (this == &other) return *this;
  finish();
  run_ = std::move(other.run_);
  return *this;
}

AsyncSave::~AsyncSave() { finish(); }

void AsyncSave::finish() noexcept {
  if (run_ == nullptr) return;
  if (run_->is_of_parent()) {
    // The thread does not exist here, and may have held any lock: leave all as it is.
    static_cast<void>(run_.release());
    return;
  }
  if (run_->thread.joinable()) run_->thread.join();
  run_.reset();
}

Result<void> AsyncSave::wait() const {
  if (run_ == nullptr) return {};
  if (run_->is_of_parent()) {
    return fail(ErrorCode::kIncomplete,
                "this save runs in the parent process; wait for it there, or save here again");
  }
  std::unique_lock lock(run_->mutex);
  run_->changed.wait(lock, [this] { return run_->is_done; });
  if (run_->exception) std::rethrow_exception(run_->exception);
  return run_->result;
}

bool AsyncSave::is_done() const {
  if (run_ == nullptr || run_->is_of_parent()) return true;
  const std::lock_guard lock(run_->mutex);
  return run_->is_done;
}

SaveProgress AsyncSave::progress() const {
  if (run_ == nullptr) return {};
  return {run_->done_bytes, run_->total_bytes};
}

void AsyncSave::cancel() const {
  if (run_ != nullptr) run_->cancel = true;
}

AsyncSave start_async(std::unique_ptr<Sink> sink, TargetPlace place, Value state, Snapshot snapshot,
                      const SaveOptions& options, const std::string& file) {
  return AsyncStarter(file).start(std::move(sink), std::move(place), std::move(state), snapshot,
                                  options);
}

AsyncSave failed_async(Error error, const std::string& file) {
  return AsyncStarter(file).fail(std::move(error));
}

AsyncSave save_async(const FilePath& path, Value state, Snapshot snapshot,
                     const SaveOptions& options) try {
  const std::string& file = path.text();
  if (auto ok = check_is_no_base(path, options.bases); !ok) return failed_async(ok.error(), file);
  auto sink = FileSink::create(
      path, {.sync = options.sync, .replace = options.replace, .ops = options.ops});
  if (!sink) return failed_async(std::move(sink.error()), file);
  auto place = TargetPlace::take(sink->target(), ops_or_system(options.ops));
  if (!place) return failed_async(std::move(place.error()), file);
  return start_async(std::make_unique<FileSink>(std::move(*sink)), std::move(*place),
                     std::move(state), snapshot, options, file);
} catch (const std::bad_alloc&) {
  return failed_async(out_of_memory().value(), path.text());
}

AsyncSave save_async(std::unique_ptr<Sink> sink, Value state, Snapshot snapshot,
                     const SaveOptions& options) {
  if (sink != nullptr) {
    return start_async(std::move(sink), {}, std::move(state), snapshot, options, {});
  }
  return failed_async(
      {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, "there is no sink to save to"}, {});
}

}  // namespace espalier
