// The right to save to a folder of checkpoints, which one process has at a time.
#ifndef ESPALIER_FILES_OS_SAVER_LOCK_H_
#define ESPALIER_FILES_OS_SAVER_LOCK_H_

#include <filesystem>
#include <memory>

#include "espalier/error.h"

namespace espalier {

/// A lock on the file `.espalier-saver` in a folder, which is made if it is missing, stays, and
/// says who holds the lock. The kernel holds it (flock), so it ends with the process, however that
/// ends. All locks of one process are one. A forked child does not have the lock of its parent, and
/// does not keep it either. Readers take no lock.
class SaverLock {
 public:
  /// Never waits. kFolderInUse, with process and host, if another process has the lock;
  /// kNotARegularFile if anything but a regular file has the name, as a link that was planted to
  /// have what it leads to overwritten; kIoError, also if the file system has no locks.
  [[nodiscard]] static Result<std::shared_ptr<const SaverLock>> take(
      const std::filesystem::path& folder);

  /// Whether this process still keeps others from saving to `folder`: it is no fork of the one that
  /// took the lock, and the folder was not removed and made anew.
  bool holds(const std::filesystem::path& folder) const;

  SaverLock(const SaverLock&) = delete;
  SaverLock& operator=(const SaverLock&) = delete;
  ~SaverLock();

 private:
  struct Held;
  class Registry;
  explicit SaverLock(std::shared_ptr<Held> held) : held_(std::move(held)) {}

  std::shared_ptr<Held> held_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_SAVER_LOCK_H_
