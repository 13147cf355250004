#include "espalier/native/file_ops.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace espalier {

FileOps& FileOps::system() {
  static FileOps ops;
  return ops;
}

int FileOps::stat(const char* path, struct stat* status) { return ::stat(path, status); }

int FileOps::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }

int FileOps::fchmod(int fd, mode_t mode) { return ::fchmod(fd, mode); }

int FileOps::ftruncate(int fd, off_t length) { return ::ftruncate(fd, length); }

int FileOps::fallocate(int fd, off_t length) {
#ifdef __linux__
  return ::fallocate(fd, 0, 0, length);
#else
  (void)fd, (void)length;
  errno = ENOSYS;
  return -1;
#endif
}

ssize_t FileOps::pwrite(int fd, const void* bytes, std::size_t size, off_t offset) {
  return ::pwrite(fd, bytes, size, offset);
}

int FileOps::fsync(int fd) {
#ifdef F_FULLFSYNC
  // On macOS, fsync() leaves the data in the disk's own cache.
  if (::fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
  return ::fsync(fd);
}

int FileOps::close(int fd) { return ::close(fd); }

int FileOps::rename(const char* from, const char* to) { return ::rename(from, to); }

int FileOps::link(const char* from, const char* to) { return ::link(from, to); }

int FileOps::unlink(const char* path) { return ::unlink(path); }

}  // namespace espalier
