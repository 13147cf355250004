// A lock that the processes that work in one folder share.
#ifndef ESPALIER_FILES_OS_FOLDER_LOCK_H_
#define ESPALIER_FILES_OS_FOLDER_LOCK_H_

#include <filesystem>
#include <optional>

#include "espalier/error.h"
#include "files/os/posix.h"

namespace espalier {

/// A lock on the file `.espalier-lock` in a folder, which is made if it is missing and stays. Held
/// until this object is destroyed or the process ends. Two objects of one process exclude each
/// other too.
class FolderLock {
 public:
  /// Waits while another holder has the lock exclusively. Several may share it. kIoError, also if
  /// the file system has no locks.
  [[nodiscard]] static Result<FolderLock> share(const std::filesystem::path& folder);
  /// Locks exclusively; nullopt if others hold the lock. Never waits.
  [[nodiscard]] static Result<std::optional<FolderLock>> try_exclusive(
      const std::filesystem::path& folder);

 private:
  explicit FolderLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_FOLDER_LOCK_H_
