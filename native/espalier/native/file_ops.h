// The system calls that a save makes: a seam, so that tests can make each of them fail and programs
// can stop a save between two of them.
#ifndef ESPALIER_NATIVE_FILE_OPS_H_
#define ESPALIER_NATIVE_FILE_OPS_H_

#include <cstddef>

#include <sys/stat.h>
#include <sys/types.h>

namespace espalier {

/// What a FileSink asks of the operating system. Each function is the POSIX call of its name, with
/// its arguments, its result and its errno; this class makes just that call, and a derived one may
/// do otherwise. Whoever uses one only borrows it. All functions must be thread-safe.
class FileOps {
 public:
  FileOps() = default;
  FileOps(const FileOps&) = delete;
  FileOps& operator=(const FileOps&) = delete;
  virtual ~FileOps() = default;

  /// The system itself. Lives as long as the program, and has no state.
  static FileOps& system();

  virtual int stat(const char* path, struct stat* status);
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int fchmod(int fd, mode_t mode);
  virtual int ftruncate(int fd, off_t length);
  /// Linux's fallocate(2) for the first `length` bytes; ENOSYS elsewhere.
  virtual int fallocate(int fd, off_t length);
  virtual ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset);
  /// Where fsync() stops at the disk's own cache, this goes beyond it.
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int rename(const char* from, const char* to);
  virtual int link(const char* from, const char* to);
  virtual int unlink(const char* path);
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_FILE_OPS_H_
