#include "files/os/file_ops.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/xattr.h>
#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif
#endif

namespace espalier {

FileOps& FileOps::system() {
  static FileOps ops;
  return ops;
}

int FileOps::openat(int folder, const char* path, int flags, mode_t mode) {
  return ::openat(folder, path, flags, mode);
}

int FileOps::fstatat(int folder, const char* path, struct stat* status, int flags) {
  return ::fstatat(folder, path, status, flags);
}

ssize_t FileOps::readlinkat(int folder, const char* path, char* text, std::size_t size) {
  return ::readlinkat(folder, path, text, size);
}

int FileOps::fstat(int fd, struct stat* status) { return ::fstat(fd, status); }

int FileOps::fchmod(int fd, mode_t mode) { return ::fchmod(fd, mode); }

int FileOps::lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }

int FileOps::dup(int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }

int FileOps::fchown(int fd, uid_t owner, gid_t group) { return ::fchown(fd, owner, group); }

#ifdef __linux__
ssize_t FileOps::fgetxattr(int fd, const char* name, void* value, std::size_t size) {
  return ::fgetxattr(fd, name, value, size);
}

int FileOps::fsetxattr(int fd, const char* name, const void* value, std::size_t size) {
  return ::fsetxattr(fd, name, value, size, 0);
}

int FileOps::fremovexattr(int fd, const char* name) { return ::fremovexattr(fd, name); }
#else
ssize_t FileOps::fgetxattr(int, const char*, void*, std::size_t) {
  errno = ENOTSUP;
  return -1;
}

int FileOps::fsetxattr(int, const char*, const void*, std::size_t) {
  errno = ENOTSUP;
  return -1;
}

int FileOps::fremovexattr(int, const char*) {
  errno = ENOTSUP;
  return -1;
}
#endif

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

int FileOps::clone_range(int from, off_t from_offset, std::size_t size, int to, off_t to_offset) {
#ifdef __linux__
  file_clone_range range = {};
  range.src_fd = from;
  range.src_offset = static_cast<__u64>(from_offset);
  range.src_length = size;
  range.dest_offset = static_cast<__u64>(to_offset);
  return ::ioctl(to, FICLONERANGE, &range);
#else
  (void)from, (void)from_offset, (void)size, (void)to, (void)to_offset;
  errno = ENOSYS;
  return -1;
#endif
}

ssize_t FileOps::copy_range(int from, off_t from_offset, std::size_t size, int to,
                            off_t to_offset) {
#ifdef __linux__
  return ::copy_file_range(from, &from_offset, to, &to_offset, size, 0);
#else
  (void)from, (void)from_offset, (void)size, (void)to, (void)to_offset;
  errno = ENOSYS;
  return -1;
#endif
}

int FileOps::fsync(int fd) {
#ifdef F_FULLFSYNC
  // On macOS, fsync() leaves the data in the disk's own cache.
  if (::fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
  return ::fsync(fd);
}

int FileOps::close(int fd) { return ::close(fd); }

int FileOps::renameat(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}

int FileOps::renameat_exclusively(int folder, const char* from, const char* to) {
#if defined(__linux__) && defined(RENAME_NOREPLACE)
  return ::renameat2(folder, from, folder, to, RENAME_NOREPLACE);
#elif defined(__APPLE__)
  return ::renameatx_np(folder, from, folder, to, RENAME_EXCL);
#else
  (void)folder, (void)from, (void)to;
  errno = ENOSYS;
  return -1;
#endif
}

int FileOps::linkat(int folder, const char* from, const char* to) {
  return ::linkat(folder, from, folder, to, 0);
}

int FileOps::link_open_file(int fd, int folder, const char* to) {
#ifdef __linux__
  // Without a capability, this is the way; it follows the link to the file itself.
  std::array<char, 40> from = {};
  std::snprintf(from.data(), from.size(), "/proc/self/fd/%d", fd);
  return ::linkat(AT_FDCWD, from.data(), folder, to, AT_SYMLINK_FOLLOW);
#else
  (void)fd, (void)folder, (void)to;
  errno = ENOSYS;
  return -1;
#endif
}

int FileOps::unlinkat(int folder, const char* name) { return ::unlinkat(folder, name, 0); }

}  // namespace espalier
