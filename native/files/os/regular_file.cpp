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

// Without O_NONBLOCK, opening a FIFO waits for a writer, which may never come.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
constexpr int kFolderFlags = O_RDONLY | O_CLOEXEC | O_DIRECTORY;

// A file that was opened, or could not be: then errno says why.
Result<RegularFile> examined(FileDescriptor file) {
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
}

}  // namespace

std::optional<WriteState> WriteState::of(const FileDescriptor& file) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return std::nullopt;
  return state_of(status);
}

Result<RegularFile> open_regular_file(const std::filesystem::path& path) try {
  if (auto ok = check_no_nul(path); !ok) return propagate(ok);
  return examined(FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), kReadFlags); })));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<RegularFile> open_regular_file_below(const std::filesystem::path& folder,
                                            std::string_view name) try {
  if (name.find('/') == std::string_view::npos) return open_regular_file(folder / name);
  if (auto ok = check_no_nul(folder / name); !ok) return propagate(ok);
  const char* const top = folder.empty() ? "." : folder.c_str();
  FileDescriptor above(uninterrupted([&] { return ::open(top, kFolderFlags); }));
  while (above.is_open()) {
    const std::size_t end = name.find('/');
    const std::string part(name.substr(0, end));
    const int flags = (end == std::string_view::npos ? kReadFlags : kFolderFlags) | O_NOFOLLOW;
    FileDescriptor next(uninterrupted([&] { return ::openat(above.get(), part.c_str(), flags); }));
    // A link in place of a folder is ENOTDIR on Linux; some systems say EMLINK.
    if (!next.is_open() && (errno == ELOOP || errno == EMLINK || errno == ENOTDIR)) {
      return fail(ErrorCode::kNotARegularFile,
                  "'" + part +
                      "' in the checkpoint's folder is a symbolic link or no folder, which is not "
                      "followed; copy the checkpoint with its links resolved: cp -rL");
    }
    if (end == std::string_view::npos) return examined(std::move(next));
    above = std::move(next);
    name.remove_prefix(end + 1);
  }
  return fail_with_errno(errno, "open the file");
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
