#include <cerrno>
#include <new>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "espalier/file_sink.h"
#include "files/os/folder_files.h"
#include "files/os/out_of_memory.h"
#include "files/os/posix.h"

namespace espalier {
namespace {

// Returns whether the file was dead and is gone now.
Result<bool> remove_if_dead(const std::string& path) {
  // Neither follows a planted link nor waits for a planted FIFO.
  const FileDescriptor file(uninterrupted(
      [&] { return ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  struct stat status = {};
  // Another user's file, or one that has just been finished.
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return false;
  }
  // The lock stays until the file is gone: a save that has just made it finds it gone, and makes
  // another.
  if (uninterrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0) return false;
  // Its save may have finished since it was opened, and then it has another name.
  struct stat named = {};
  if (::lstat(path.c_str(), &named) != 0 || named.st_ino != status.st_ino ||
      named.st_dev != status.st_dev) {
    return false;
  }
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  return fail_with_errno(errno, "remove the temporary file " + path);
}

}  // namespace

Result<std::size_t> remove_dead_temporary_files(const FilePath& path) try {
  const std::filesystem::path folder = path;
  const auto names = list_folder(folder);
  if (!names) return propagate(names);
  std::size_t removed = 0;
  std::optional<Error> problem;
  for (const std::string& name : *names) {
    if (!FileSink::is_temporary_name(name)) continue;
    auto gone = remove_if_dead((folder / name).string());
    if (gone) {
      removed += *gone ? 1 : 0;
    } else if (!problem) {
      problem = std::move(gone.error());
    }
  }
  if (problem) return tl::unexpected<Error>(std::move(*problem));
  return removed;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
