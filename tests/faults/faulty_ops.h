// System calls that fail when they are told to.
#ifndef ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_
#define ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_

#include <cerrno>
#include <cstddef>
#include <mutex>
#include <optional>
#include <set>

#include <fcntl.h>

#include "espalier/native/file_ops.h"

namespace espalier::testing {

/// A system call, and what it was for.
enum class Call {
  kStat,
  kCreate,
  kChangeMode,
  kTruncate,
  kAllocate,
  kWrite,
  kSyncFile,
  kCloseFile,
  kRename,
  kLink,
  kUnlink,
  kOpenFolder,
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
  /// Files and folders that were opened and not closed.
  std::size_t still_open() const { return files_.size() + folders_.size(); }

  int stat(const char* path, struct stat* status) override {
    return spoils(Call::kStat) ? -1 : FileOps::stat(path, status);
  }
  int open(const char* path, int flags, mode_t mode) override {
    const bool is_folder = (flags & O_DIRECTORY) != 0;
    if (spoils(is_folder ? Call::kOpenFolder : Call::kCreate)) return -1;
    const int fd = FileOps::open(path, flags, mode);
    const std::lock_guard lock(mutex_);
    if (fd >= 0) (is_folder ? folders_ : files_).insert(fd);
    return fd;
  }
  int fchmod(int fd, mode_t mode) override {
    return spoils(Call::kChangeMode) ? -1 : FileOps::fchmod(fd, mode);
  }
  int ftruncate(int fd, off_t length) override {
    return spoils(Call::kTruncate) ? -1 : FileOps::ftruncate(fd, length);
  }
  int fallocate(int fd, off_t length) override {
    return spoils(Call::kAllocate) ? -1 : FileOps::fallocate(fd, length);
  }
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    return spoils(Call::kWrite) ? -1 : FileOps::pwrite(fd, bytes, size, offset);
  }
  int fsync(int fd) override {
    return spoils(is_folder(fd) ? Call::kSyncFolder : Call::kSyncFile) ? -1 : 0;
  }
  int close(int fd) override {
    const bool fails = spoils(is_folder(fd) ? Call::kCloseFolder : Call::kCloseFile);
    const int error = errno;
    {
      const std::lock_guard lock(mutex_);
      files_.erase(fd);
      folders_.erase(fd);
    }
    // A close() that fails has closed all the same.
    const int result = FileOps::close(fd);
    if (fails) errno = error;
    return fails ? -1 : result;
  }
  int rename(const char* from, const char* to) override {
    return spoils(Call::kRename) ? -1 : FileOps::rename(from, to);
  }
  int link(const char* from, const char* to) override {
    return spoils(Call::kLink) ? -1 : FileOps::link(from, to);
  }
  int unlink(const char* path) override {
    return spoils(Call::kUnlink) ? -1 : FileOps::unlink(path);
  }

 private:
  bool is_folder(int fd) {
    const std::lock_guard lock(mutex_);
    return folders_.contains(fd);
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
  std::set<int> files_;
  std::set<int> folders_;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FAULTS_FAULTY_OPS_H_
