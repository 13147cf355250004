// Helpers for code that calls the operating system.
#ifndef ESPALIER_FILES_OS_POSIX_H_
#define ESPALIER_FILES_OS_POSIX_H_

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "espalier/error.h"
#include "files/os/file_ops.h"

namespace espalier {

/// An owned file descriptor, or none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// `ops` opened the descriptor and closes it; it must outlive this object.
  explicit FileDescriptor(int fd, FileOps& ops = FileOps::system()) : fd_(fd), ops_(&ops) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), ops_(other.ops_) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(ops_, other.ops_);
    return *this;
  }
  /// Closes and ignores the result; right for files that were only read.
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// Closes and returns 0 or the errno: after writing, close() may be the first call to report an
  /// error.
  int close();

 private:
  int fd_ = -1;
  FileOps* ops_ = nullptr;
};

/// Repeats a call that a signal interrupted before it had any effect. Not for fsync() and close():
/// an interrupted fsync() may have consumed the only report of an error, and a second close() might
/// close another thread's file.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// That a path has no NUL, at which the system would take it to end: it would open, or replace,
/// another file than the one that was named. kInvalidArgument.
[[nodiscard]] Result<void> check_no_nul(const std::filesystem::path& path);

/// An error of the operating system: "cannot <what>: <text of errno>". ENOENT and ENOTDIR become
/// kFileNotFound, everything else kIoError.
tl::unexpected<Error> fail_with_errno(int number, const std::string& what,
                                      std::uint64_t offset = Error::kNoOffset);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_POSIX_H_
