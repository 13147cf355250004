#include "files/os/regular_file.h"

#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

WriteState state_of(const struct stat& status) {
#ifdef __APPLE__
  const timespec& written = status.st_mtimespec;
#else
  const timespec& written = status.st_mtim;
#endif
  return {static_cast<std::uint64_t>(status.st_size), written.tv_sec, written.tv_nsec};
}

}  // namespace

std::optional<WriteState> WriteState::of(const FileDescriptor& file) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return std::nullopt;
  return state_of(status);
}

Result<RegularFile> open_regular_file(const std::filesystem::path& path) try {
  if (auto ok = check_no_nul(path); !ok) return propagate(ok);
  // Without O_NONBLOCK, opening a FIFO waits for a writer, which may never come.
  FileDescriptor file(
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file.is_open()) {
    if (errno == ENXIO) {
      return fail(ErrorCode::kNotARegularFile, "a socket or device cannot be read as a checkpoint");
    }
    return fail_with_errno(errno, "open the file");
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return fail_with_errno(errno, "examine the file");
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kNotARegularFile,
                "this is " + kind_of(status.st_mode) + "; a checkpoint is one regular file");
  }
  return RegularFile{std::move(file), state_of(status)};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
