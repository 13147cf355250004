// System calls that fail when they are told to.
#ifndef ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_
#define ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "support/copy_ranges.h"
#include <fcntl.h>

#include "espalier/file_sink.h"
#include "files/os/file_ops.h"

namespace espalier::testing {

/// A system call, and its purpose.
enum class Call {
  kOpenFolder,
  kStatTarget,
  kOpenNameless,  // first one that is only tried
  kTryName,
  kUnlinkNamed,
  kCreate,
  kLock,
  kTryRename,
  kTryLink,
  kTruncate,
  kAllocate,
  kWrite,
  kClone,
  kCopy,
  kOpenOld,
  kGetAcl,
  kCloseOld,
  kStatFile,
  kRemoveAcl,
  kHide,  // from group and others, until the file is complete
  kChangeMode,
  kSyncFile,
  kName,
  kDuplicate,  // to keep the lock
  kCloseFile,
  kRename,
  kRenameExclusively,
  kLink,
  kUnlinkTried,
  kUnlink,
  kUnlock,
  kSyncFolder,
  kCloseFolder,
};

/// Which calls fail, counted from 0 in the order in which they are made, and how.
struct Fault {
  std::size_t at = ~std::size_t{0};
  int error = EIO;
  /// Whether all calls after it fail too, as if the disk was gone.
  bool lasting = false;
};

/// Makes the system's calls but for those that are to fail. Nothing is brought to a disk: whether
/// it would have been, crash_test.cpp looks into.
class FaultyOps : public FileOps {
 public:
  explicit FaultyOps(Fault fault = {}) : fault_(fault) {}

  /// The first call that was made to fail.
  std::optional<Call> hit() const { return hit_; }
  /// Writes that were made.
  std::size_t writes() const { return writes_; }
  /// Files and folders that were opened and not closed.
  std::size_t still_open() const { return kinds_.size(); }

  int openat(int folder, const char* path, int flags, mode_t mode) override {
    const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const bool is_folder = !is_nameless && (flags & O_DIRECTORY) != 0;
    const bool is_new = is_nameless || (flags & O_CREAT) != 0;
    if (spoils(is_nameless ? Call::kOpenNameless
               : is_folder ? Call::kOpenFolder
               : is_new    ? Call::kCreate
                           : Call::kOpenOld)) {
      return -1;
    }
    if (is_nameless && needs_names) {
      errno = EOPNOTSUPP;
      return -1;
    }
    const int fd = FileOps::openat(folder, path, flags, mode);
    const std::lock_guard lock(mutex_);
    // The first file without a name is only tried.
    const bool is_tried = is_nameless && !std::exchange(has_tried_, true);
    if (fd >= 0) {
      kinds_[fd] = is_folder  ? Kind::kFolder
                   : is_tried ? Kind::kTried
                   : is_new   ? Kind::kNew
                              : Kind::kOld;
    }
    return fd;
  }
  int fstatat(int folder, const char* path, struct stat* status, int flags) override {
    return spoils(Call::kStatTarget) ? -1 : FileOps::fstatat(folder, path, status, flags);
  }
  int fstat(int fd, struct stat* status) override {
    return spoils(Call::kStatFile) ? -1 : FileOps::fstat(fd, status);
  }
  int fchmod(int fd, mode_t mode) override {
    const bool hides = (mode & 077) == 0;
    return spoils(hides ? Call::kHide : Call::kChangeMode) ? -1 : FileOps::fchmod(fd, mode);
  }
  ssize_t fgetxattr(int fd, const char* name, void* value, std::size_t size) override {
    return spoils(Call::kGetAcl) ? -1 : FileOps::fgetxattr(fd, name, value, size);
  }
  int fremovexattr(int fd, const char* name) override {
    return spoils(Call::kRemoveAcl) ? -1 : FileOps::fremovexattr(fd, name);
  }
  int ftruncate(int fd, off_t length) override {
    return spoils(Call::kTruncate) ? -1 : FileOps::ftruncate(fd, length);
  }
  int fallocate(int fd, off_t length) override {
    return spoils(Call::kAllocate) ? -1 : FileOps::fallocate(fd, length);
  }
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    if (spoils(Call::kWrite)) return -1;
    ++writes_;
    return FileOps::pwrite(fd, bytes, size, offset);
  }
  int clone_range(int from, off_t from_offset, std::size_t size, int to, off_t to_offset) override {
    if (spoils(Call::kClone)) return -1;
    if (cannot_clone) {
      errno = ENOTSUP;
      return -1;
    }
    FileOps& system = FileOps::system();
    return testing::clone_range(system, from, from_offset, size, to, to_offset);
  }
  ssize_t copy_range(int from, off_t from_offset, std::size_t size, int to,
                     off_t to_offset) override {
    if (spoils(Call::kCopy)) return -1;
    return testing::copy_range(FileOps::system(), from, from_offset, size, to, to_offset);
  }
  int lock(int fd) override { return spoils(Call::kLock) ? -1 : FileOps::lock(fd); }
  int dup(int fd) override {
    if (spoils(Call::kDuplicate)) return -1;
    const int copy = FileOps::dup(fd);
    const std::lock_guard lock(mutex_);
    if (copy >= 0) kinds_[copy] = Kind::kCopy;
    return copy;
  }
  int fsync(int fd) override {
    return spoils(kind_of(fd) == Kind::kFolder ? Call::kSyncFolder : Call::kSyncFile) ? -1 : 0;
  }
  int close(int fd) override {
    const Kind kind = kind_of(fd);
    const bool fails = spoils(kind == Kind::kFolder ? Call::kCloseFolder
                              : kind == Kind::kNew  ? Call::kCloseFile
                              : kind == Kind::kCopy ? Call::kUnlock
                                                    : Call::kCloseOld);
    const int error = errno;
    {
      const std::lock_guard lock(mutex_);
      kinds_.erase(fd);
    }
    // A close() that fails has closed all the same.
    const int result = FileOps::close(fd);
    if (fails) errno = error;
    return fails ? -1 : result;
  }
  int renameat(int folder, const char* from, const char* to) override {
    return spoils(Call::kRename) ? -1 : FileOps::renameat(folder, from, to);
  }
  int renameat_exclusively(int folder, const char* from, const char* to) override {
    const Call call = FileSink::is_temporary_name(to) ? Call::kTryRename : Call::kRenameExclusively;
    if (spoils(call)) return -1;
    if (!cannot_rename_exclusively) {
      if (from == named_) named_ = to;
      return FileOps::renameat_exclusively(folder, from, to);
    }
    errno = EINVAL;
    return -1;
  }
  int linkat(int folder, const char* from, const char* to) override {
    const bool is_tried = FileSink::is_temporary_name(to);
    if (spoils(is_tried ? Call::kTryLink : Call::kLink)) return -1;
    if (is_tried) tried_ = to;
    if (!cannot_link) return FileOps::linkat(folder, from, to);
    errno = EPERM;
    return -1;
  }
  int link_open_file(int fd, int folder, const char* to) override {
    const bool is_tried = kind_of(fd) == Kind::kTried;
    if (spoils(is_tried ? Call::kTryName : Call::kName)) return -1;
    if (cannot_name) {
      errno = EACCES;
      return -1;
    }
    if (is_tried) named_ = to;
    return FileOps::link_open_file(fd, folder, to);
  }
  int unlinkat(int folder, const char* path) override {
    if (spoils(path == tried_   ? Call::kUnlinkTried
               : path == named_ ? Call::kUnlinkNamed
                                : Call::kUnlink)) {
      return -1;
    }
    return FileOps::unlinkat(folder, path);
  }

  // Operations that some file systems lack.
  bool cannot_rename_exclusively = false;
  bool cannot_link = false;
  bool cannot_clone = false;
  bool needs_names = false;  // has no files without a name
  bool cannot_name = false;  // has them, but gives them no name later

 private:
  enum class Kind { kOld, kTried, kNew, kCopy, kFolder };

  Kind kind_of(int fd) {
    const std::lock_guard lock(mutex_);
    return kinds_.at(fd);
  }

  // Whether the next call, which is `call`, is to fail; sets errno if so.
  bool spoils(Call call) {
    const std::lock_guard lock(mutex_);
    const std::size_t number = made_++;
    if (number != fault_.at && !(fault_.lasting && number > fault_.at)) return false;
    if (!hit_) hit_ = call;
    errno = fault_.error;
    return true;
  }

  Fault fault_;
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::optional<Call> hit_;
  std::map<int, Kind> kinds_;  // of open files
  bool has_tried_ = false;
  std::string named_;  // the name of a file that is only tried
  std::string tried_;  // the name of a link that is made to see whether links work
  std::atomic<std::size_t> writes_ = 0;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_
