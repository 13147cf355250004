#include "serve/resource.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/os/posix.h"

namespace espalier::serve {
namespace {

tl::unexpected<Error> shorter(std::uint64_t offset) {
  return fail(ErrorCode::kFileChanged, "the file became shorter while it was read", offset);
}

timespec time_of_change(const struct stat& status) {
#ifdef __APPLE__
  return status.st_mtimespec;
#else
  return status.st_mtim;
#endif
}

}  // namespace

Result<Resource::State> TextResource::state() const { return State{text_.size(), {}}; }

Result<std::size_t> TextResource::read(std::uint64_t offset, MutableByteSpan out) const {
  if (offset >= text_.size()) return shorter(offset);
  const auto begin = static_cast<std::size_t>(offset);
  const std::size_t length = std::min(out.size(), text_.size() - begin);
  std::memcpy(out.data(), text_.data() + begin, length);
  return length;
}

Result<Resource::State> FileResource::state() const {
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0) return fail_with_errno(errno, "examine the file");
  const timespec changed = time_of_change(status);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return State{size, fmt::format("\"{:x}-{:x}-{:x}-{:x}.{:x}\"", status.st_dev, status.st_ino, size,
                                 changed.tv_sec, changed.tv_nsec)};
}

Result<std::size_t> FileResource::read(std::uint64_t offset, MutableByteSpan out) const {
  const ssize_t n = uninterrupted(
      [&] { return ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset)); });
  if (n < 0) return fail_with_errno(errno, "read the file", offset);
  if (n == 0) return shorter(offset);
  return static_cast<std::size_t>(n);
}

}  // namespace espalier::serve
