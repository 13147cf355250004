// What ioctl_ficlonerange(2) and copy_file_range(2) do, for tests on file systems without them.
#ifndef ESPALIER_TESTS_SUPPORT_COPY_RANGES_H_
#define ESPALIER_TESTS_SUPPORT_COPY_RANGES_H_

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "files/os/file_ops.h"

namespace espalier::testing {

/// Copies whole blocks of 4,096 bytes with pread(2) and `ops.pwrite`; EINVAL for others.
inline int clone_range(FileOps& ops, int from, off_t from_offset, std::size_t size, int to,
                       off_t to_offset) {
  if (size == 0 || (from_offset | to_offset | static_cast<off_t>(size)) % 4096 != 0) {
    errno = EINVAL;
    return -1;
  }
  std::vector<std::byte> bytes(size);
  if (::pread(from, bytes.data(), size, from_offset) != static_cast<ssize_t>(size)) {
    errno = EINVAL;
    return -1;
  }
  return ops.pwrite(to, bytes.data(), size, to_offset) == static_cast<ssize_t>(size) ? 0 : -1;
}

/// Copies with pread(2) and `ops.pwrite`, and at most 1 MB, as the system may copy less than asked.
inline ssize_t copy_range(FileOps& ops, int from, off_t from_offset, std::size_t size, int to,
                          off_t to_offset) {
  std::vector<std::byte> bytes(std::min<std::size_t>(size, 1'000'000));
  const ssize_t read = ::pread(from, bytes.data(), bytes.size(), from_offset);
  if (read <= 0) return read;
  return ops.pwrite(to, bytes.data(), static_cast<std::size_t>(read), to_offset);
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_COPY_RANGES_H_
