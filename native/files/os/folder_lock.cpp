#include "files/os/folder_lock.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

namespace espalier {
namespace {

Result<FileDescriptor> open_lock_file(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".espalier-lock";
  const auto open = [&](int flags) {
    return uninterrupted(
        [&] { return ::open(path.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); });
  };
  int fd = open(O_RDWR);
  // Another user's file can be locked all the same.
  if (fd < 0 && errno == EACCES) fd = open(O_RDONLY);
  if (fd < 0) return fail_with_errno(errno, "open the lock of the folder, " + path.string());
  return FileDescriptor(fd);
}

tl::unexpected<Error> no_locks() {
  return fail_with_errno(errno,
                         "lock the folder, without which processes could remove each other's "
                         "checkpoints; choose a folder on a file system with locks");
}

}  // namespace

Result<FolderLock> FolderLock::share(const std::filesystem::path& folder) {
  auto file = open_lock_file(folder);
  if (!file) return propagate(file);
  if (uninterrupted([&] { return ::flock(file->get(), LOCK_SH); }) != 0) return no_locks();
  return FolderLock(std::move(*file));
}

Result<std::optional<FolderLock>> FolderLock::try_exclusive(const std::filesystem::path& folder) {
  auto file = open_lock_file(folder);
  if (!file) return propagate(file);
  if (uninterrupted([&] { return ::flock(file->get(), LOCK_EX | LOCK_NB); }) == 0) {
    return std::optional(FolderLock(std::move(*file)));
  }
  if (errno != EWOULDBLOCK) return no_locks();
  return std::optional<FolderLock>();
}

}  // namespace espalier
