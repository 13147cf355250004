// The few things that everything which talks to the operating system needs.
#ifndef ESPALIER_NATIVE_POSIX_H_
#define ESPALIER_NATIVE_POSIX_H_

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "espalier/base/error.h"
#include "espalier/native/file_ops.h"

namespace espalier {

/// An owned file descriptor, or none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// `ops`, which opened it, closes it, and must outlive it.
  explicit FileDescriptor(int fd, FileOps& ops = FileOps::system()) : fd_(fd), ops_(&ops) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), ops_(other.ops_) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(ops_, other.ops_);
    return *this;
  }
  /// Closes without looking at the result: right for files that were only read.
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  /// Closes and returns 0 or the errno: after writing, close() may be the first to know of an
  /// error.
  int close();

 private:
  int fd_ = -1;
  FileOps* ops_ = nullptr;
};

/// Calls again what a signal interrupted before it did anything. Not for fsync() and close(): an
/// interrupted fsync() may have used up the one report of an error, and a second close() might hit
/// somebody else's file.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// An error of the operating system: "cannot <what>: <text of errno>". ENOENT and ENOTDIR become
/// kFileNotFound, everything else kIoError.
tl::unexpected<Error> fail_with_errno(int number, const std::string& what,
                                      std::uint64_t offset = Error::kNoOffset);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_POSIX_H_
