// A folder of checkpoints, one file per step: saves, keeps what is worth keeping, and finds the
// latest that is intact.
//
//   auto dir = CheckpointDir::open("runs/1", {.keep = Retention{.last = 3}});
//   if (!dir) return report(dir.error());
//   auto latest = dir->latest();  // after a crash: where to go on
//   if (!latest) return report(latest.error());
//   if (*latest) {
//     const CheckpointFile& file = (*latest)->file;
//     auto loaded = file.load(file.state());
//     if (!loaded) return report(loaded.error());
//     state = std::move(*loaded);
//   }
//
//   auto saved = dir->save(step, state);
#ifndef ESPALIER_CHECKPOINT_DIR_H_
#define ESPALIER_CHECKPOINT_DIR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/save.h"
#include "espalier/save_async.h"
#include "espalier/value.h"

namespace espalier {

/// Which checkpoints are best: those with the least or the greatest number in their metadata.
struct Best {
  /// Key path of an int or a float in the metadata, such as "loss". A checkpoint without it, or
  /// with NaN there, is never best; if there is no other, problems() says so.
  std::string metric;
  enum class Order : std::uint8_t { kMin, kMax };
  Order order = Order::kMin;
  /// How many to keep. Among equal ones, the newer is better.
  std::size_t count = 1;
};

/// Which checkpoints a save keeps. One that any of the rules names stays. Files that do not open or
/// that no CheckpointDir saved stay too, and do not count.
struct Retention {
  /// The steps with the greatest numbers; at least 1.
  std::size_t last = 3;
  /// Every step that is a multiple of this, for ever; 0 for none.
  std::uint64_t every = 0;
  /// The best by a number in the metadata.
  std::optional<Best> best = {};
};

struct CheckpointDirOptions {
  /// nullopt keeps everything.
  std::optional<Retention> keep = Retention();
  /// Whether a save refers to what the newest checkpoint of another step has already, unless
  /// SaveOptions::bases says to what: see there. A save then costs what changed, which pays where
  /// much stays the same: frozen weights under an adapter. All such checkpoints share the bytes
  /// that stay the same, so damage there is damage of all of them. With SaveOptions::patches, a
  /// step can need up to 16 of the steps before it, and these stay beside what `keep` says.
  bool incremental = false;
  /// How latest() opens files, and retention reads their metadata.
  OpenFileOptions open = {};
};

struct OpenBase;

/// A step whose file cannot be used, and why.
struct SkippedStep {
  std::uint64_t step = 0;
  Error error;
};

/// The latest checkpoint that is intact.
struct LatestCheckpoint {
  std::uint64_t step = 0;
  CheckpointFile file;
  /// Later steps that are not, and files that no CheckpointDir saved as such a step, the latest
  /// first.
  std::vector<SkippedStep> skipped;
};

/// A folder with files step_00000100.espalier: the number of the step, with at least eight digits.
/// One process saves to a folder at a time: the first save takes a lock, which is released when all
/// copies of the CheckpointDir and its saves are gone, by unlock(), or when the process ends in
/// whatever way. Any number of them may read meanwhile. Cheap to copy. Thread-safe.
///
/// What a save removes, and when:
/// - nothing until its own file is complete (with SaveOptions::sync: on the disk), and never that
///   file. So there is always an intact checkpoint, unless the disk damages it.
/// - only files that a CheckpointDir named: regular files of such a name that open, have hashes,
///   and whose metadata say the step. A damaged file stays, and is in problems().
/// - no file that another checkpoint of the folder refers to, whatever the rules say. If a file
/// that
///   may refer to others does not open, nothing is removed at all, and it is in problems().
/// - temporary files that a save left when its process was ended. Those of a live save, of this or
///   another process, are locked, and stay. A file system without locks keeps them all.
class CheckpointDir {
 public:
  /// Opens a folder; makes it and those above it if they are missing. Removes temporary files of
  /// dead saves. kInvalidArgument for rules that keep nothing, an empty path and one through a
  /// file; kInvalidKeyPath for the metric; kIoError; kOutOfMemory.
  [[nodiscard]] static Result<CheckpointDir> open(const FilePath& folder,
                                                  const CheckpointDirOptions& options = {});

  /// Saves the state as the checkpoint of `step`, as espalier::save() does, and then removes the
  /// checkpoints that the rules do not keep. SaveOptions::carry does not count: as the files that
  /// tensors come from may be removed, what load_lazily() and contents() found is read and checked
  /// (kChunkCorrupt), and what load() found is saved as it is in memory. A checkpoint of the same
  /// step is replaced; kNotARegularFile if anything but a regular file has its name: a symbolic
  /// link is not followed, and kFileExists if another file refers to the one of this step. The
  /// metadata get the key "step"; kInvalidArgument if they have another
  /// value there. kFolderInUse if another process saves to the folder: see lock(). Other errors are
  /// those of espalier::save(), and then nothing is removed. What cannot be removed is no error: it
  /// is in problems(), and the next save tries again.
  [[nodiscard]] Result<void> save(std::uint64_t step, const Value& state,
                                  const SaveOptions& options = {}) const;

  /// The same in the background: see espalier::save_async(). Saves of different steps may end in
  /// any order.
  AsyncSave save_async(std::uint64_t step, Value state, Snapshot snapshot,
                       const SaveOptions& options = {}) const;

  /// Keeps other processes from saving to the folder, as the first save does by itself. Does not
  /// wait: kFolderInUse, with the process and its host, if one does already. kIoError, also if the
  /// file system has no locks (flock), without which two processes could remove each other's
  /// checkpoints; kNotARegularFile if a link or the like has the name of the lock,
  /// `.espalier-saver`; kOutOfMemory. A forked child does not have the lock of its parent.
  [[nodiscard]] Result<void> lock() const;

  /// Lets other processes save to the folder, once saves in the background are done. The next save
  /// takes the lock again.
  void unlock() const;

  /// Removes what the rules do not keep, as save() does once its file is in place: for programs
  /// that wrote the file of `step` in another way, such as several processes that each wrote a
  /// part. Removes nothing if that file does not exist. kFolderInUse as save(); what cannot be
  /// removed is in problems().
  [[nodiscard]] Result<void> prune(std::uint64_t step) const;

  /// The steps that have a file, ascending. Files are not opened: some may be damaged.
  ///
  ///   const auto steps = dir.steps();
  ///   if (!steps) return report(steps.error());
  ///   for (const std::uint64_t step : *steps) ...
  [[nodiscard]] Result<std::vector<std::uint64_t>> steps() const;

  /// The latest checkpoint whose every byte is intact; nullopt if the folder has none at all. Reads
  /// the whole file once; Check::kNothing only opens it, which finds damage of the tree but not of
  /// tensors. A file whose metadata say another step than its name, or none, is skipped
  /// (kInvalidArgument), and so is one of a format without hashes (kNotACheckpoint). If there are
  /// checkpoints and none is intact, the error is that of the latest: do not train on from nothing
  /// then, because that would remove what may still be repaired. ReadOptions::progress is of one
  /// file, and begins anew with the next. kCancelled: nothing is known then.
  [[nodiscard]] Result<std::optional<LatestCheckpoint>> latest(
      const ReadOptions& options = {}) const;

  /// The file of a step, whether it exists or not.
  FilePath path(std::uint64_t step) const;

  /// What the last save that removed files could not remove or read, with Error::file; and
  /// kNotFound if no checkpoint of the folder has the number of Best::metric, which may be
  /// misspelt.
  std::vector<Error> problems() const;

 private:
  struct Folder;
  class RotatingSink;
  explicit CheckpointDir(std::shared_ptr<Folder> folder) : folder_(std::move(folder)) {}

  [[nodiscard]] Result<SaveOptions> with_step(std::uint64_t step, const SaveOptions& options) const;
  std::shared_ptr<const OpenBase> find_base(std::uint64_t step) const;
  [[nodiscard]] Result<std::unique_ptr<RotatingSink>> begin(std::uint64_t step,
                                                            SaveOptions& options) const;

  std::shared_ptr<Folder> folder_;
};

}  // namespace espalier

#endif  // ESPALIER_CHECKPOINT_DIR_H_
