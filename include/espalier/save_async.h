// Saves in the background, while the program goes on.
//
//   AsyncSave saving = save_async("run.espalier", state, Snapshot::kCopy);
//   train();                                            // may change the tensors
//   if (auto saved = saving.wait(); !saved) return report(saved.error());
#ifndef ESPALIER_SAVE_ASYNC_H_
#define ESPALIER_SAVE_ASYNC_H_

#include <cstdint>
#include <memory>

#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/save_options.h"
#include "espalier/sink.h"
#include "espalier/value.h"

namespace espalier {

/// What a save in the background does with tensors that are in memory. Producers and readers are
/// called in the background in both cases, and must give the bytes as they were at the call.
enum class Snapshot : std::uint8_t {
  /// Copies them before the call returns, with as many threads as the save has: change them at
  /// once. Takes their size in memory until the save is done; afterwards the memory stays for the
  /// next snapshot, and the system may take it back when it needs it. Tied tensors are copied once.
  kCopy,
  /// Copies nothing: the call returns in microseconds. Do not change the tensors, or free memory
  /// that they borrow, until the save is done.
  kBorrow,
};

/// How far a save is, in bytes.
struct SaveProgress {
  std::uint64_t done = 0;
  /// 0 until the first bytes are written.
  std::uint64_t total = 0;
};

/// A save that runs in a thread of its own. Movable. Functions are thread-safe, except for moving
/// and destroying. In a forked child the save does not exist: wait() is kIncomplete at once, and
/// nothing of the parent's save is touched.
class [[nodiscard]] AsyncSave {
 public:
  /// No save: done, without an error.
  AsyncSave() noexcept;
  AsyncSave(AsyncSave&& other) noexcept;
  /// Waits for the save that is replaced, like the destructor.
  AsyncSave& operator=(AsyncSave&& other) noexcept;
  /// Waits until the save is done: no save outlives what it borrows. Its error is lost, so call
  /// wait() before, at least once.
  ~AsyncSave();

  /// Waits until the save is done, and returns what save() would return. Rethrows what a producer,
  /// a reader or a sink threw. Every call gives the same result. Do not call it, and do not destroy
  /// the object, in a function that the save itself runs, such as a producer, a sink or
  /// SaveOptions::progress: it would wait for itself, for ever.
  [[nodiscard]] Result<void> wait() const;
  /// Whether wait() would return at once.
  bool is_done() const;
  SaveProgress progress() const;

  /// Gives up the save, as SaveOptions::cancel does, and does not wait. A save whose last byte is
  /// written ends as if nothing had happened.
  void cancel() const;

 private:
  friend class AsyncStarter;
  struct Run;
  explicit AsyncSave(std::unique_ptr<Run> run) noexcept;

  void finish() noexcept;

  std::unique_ptr<Run> run_;
};

/// Begins save(path, state, options) and returns. The promises are those of save(). Every error
/// reaches wait(), also those found before the call returns: a target that cannot be created, or
/// kOutOfMemory for the copy or the thread. Only the handle itself throws std::bad_alloc. `path` is
/// looked up now: later changes of the current folder do not matter. Saves to one target by this
/// process, these and save()s that begin after them, complete in the order in which they began.
/// `options.ops`, `options.cancel` and all that producers use must live until the save is done;
/// `options.progress` is called in the background. `options.cancel` also ends the copy.
AsyncSave save_async(const FilePath& path, Value state, Snapshot snapshot,
                     const SaveOptions& options = {});

/// The same to a sink, which is destroyed when the save is done. kInvalidArgument if it is null.
AsyncSave save_async(std::unique_ptr<Sink> sink, Value state, Snapshot snapshot,
                     const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_SAVE_ASYNC_H_
