// The system calls of a save, replaceable: tests make each of them fail, and programs stop a save
// between two of them.
#ifndef ESPALIER_FILES_OS_FILE_OPS_H_
#define ESPALIER_FILES_OS_FILE_OPS_H_

#include <cstddef>

#include <sys/stat.h>
#include <sys/types.h>

namespace espalier {

/// The operating system interface of a FileSink. Each function is the POSIX call of its name, with
/// its arguments, result and errno. This class makes just that call; derived classes may change it.
/// Users borrow an object and do not own it. All functions must be thread-safe.
class FileOps {
 public:
  FileOps() = default;
  FileOps(const FileOps&) = delete;
  FileOps& operator=(const FileOps&) = delete;
  virtual ~FileOps() = default;

  /// The real system. Lives as long as the program, and has no state.
  static FileOps& system();

  // A `folder` is the descriptor of a folder, or AT_FDCWD. A save keeps the descriptor because the
  // path may change: programs change their current folder, and folders are renamed.
  virtual int openat(int folder, const char* path, int flags, mode_t mode);
  virtual int fstatat(int folder, const char* path, struct stat* status, int flags);
  virtual ssize_t readlinkat(int folder, const char* path, char* text, std::size_t size);
  virtual int fstat(int fd, struct stat* status);
  virtual int fchmod(int fd, mode_t mode);
  virtual int fchown(int fd, uid_t owner, gid_t group);
  // Extended attributes as on Linux; ENOTSUP elsewhere.
  virtual ssize_t fgetxattr(int fd, const char* name, void* value, std::size_t size);
  virtual int fsetxattr(int fd, const char* name, const void* value, std::size_t size);
  virtual int fremovexattr(int fd, const char* name);
  virtual int ftruncate(int fd, off_t length);
  /// Linux's fallocate(2) for the first `length` bytes; ENOSYS elsewhere.
  virtual int fallocate(int fd, off_t length);
  virtual ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset);
  /// Linux's ioctl_ficlonerange(2): the two files share the bytes' storage until one of them
  /// changes. ENOSYS elsewhere.
  virtual int clone_range(int from, off_t from_offset, std::size_t size, int to, off_t to_offset);
  /// Linux's copy_file_range(2): the kernel, or the server of a network file system, copies.
  /// Returns how many bytes it copied. ENOSYS elsewhere.
  virtual ssize_t copy_range(int from, off_t from_offset, std::size_t size, int to,
                             off_t to_offset);
  /// Like fsync(), but also flushes the disk's own cache where fsync() does not.
  virtual int fsync(int fd);
  virtual int close(int fd);
  /// flock(2) with LOCK_EX and LOCK_NB.
  virtual int lock(int fd);
  /// dup(2) with FD_CLOEXEC. The copy shares the lock.
  virtual int dup(int fd);
  // Both names are of files in `folder`.
  virtual int renameat(int folder, const char* from, const char* to);
  /// Like renameat(), but fails with EEXIST instead of replacing a file: Linux's renameat2(2) with
  /// RENAME_NOREPLACE, macOS's renameatx_np(2) with RENAME_EXCL. ENOSYS elsewhere; EINVAL or
  /// ENOTSUP on file systems that do not support it.
  virtual int renameat_exclusively(int folder, const char* from, const char* to);
  virtual int linkat(int folder, const char* from, const char* to);
  /// Gives an open file a name, also one that was opened with O_TMPFILE and has none: Linux's
  /// linkat(2) of /proc/self/fd. ENOSYS elsewhere.
  virtual int link_open_file(int fd, int folder, const char* to);
  virtual int unlinkat(int folder, const char* name);
};

/// The system calls of options: those that they name, or the real ones.
inline FileOps& ops_or_system(FileOps* ops) { return ops == nullptr ? FileOps::system() : *ops; }

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_FILE_OPS_H_
