#include "files/os/save_target.h"

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace espalier {
namespace {

namespace fs = std::filesystem;

Result<FileDescriptor> open_folder(int from, const fs::path& path, FileOps& ops) {
  const char* name = path.empty() ? "." : path.c_str();
  const auto open = [&](int flags) {
    return uninterrupted(
        [&] { return ops.openat(from, name, flags | O_DIRECTORY | O_CLOEXEC, 0); });
  };
  int fd = open(O_RDONLY);
#ifdef O_PATH
  // A folder without read permission can still get new files, but cannot be synced.
  if (fd < 0 && errno == EACCES) fd = open(O_PATH);
#endif
  if (fd < 0) return fail_with_errno(errno, std::string("open the folder ") + name);
  return FileDescriptor(fd, ops);
}

// In a folder with the sticky bit, only some users may replace a file. Check before minutes of
// writing.
Result<void> check_may_replace(const struct stat& file, const FileDescriptor& folder,
                               FileOps& ops) {
  struct stat status = {};
  if (ops.fstat(folder.get(), &status) != 0) return fail_with_errno(errno, "examine the folder");
  const uid_t user = ::geteuid();
  if ((status.st_mode & S_ISVTX) == 0 || user == 0 || user == file.st_uid ||
      user == status.st_uid) {
    return {};
  }
  return fail(ErrorCode::kIoError,
              "the target is another user's file in a folder with the sticky bit, so only its "
              "owner can replace it; choose another name");
}

// Whether another user may have planted the link in the folder.
Result<bool> is_strangers(const struct stat& link, const FileDescriptor& folder, FileOps& ops) {
  struct stat status = {};
  if (ops.fstat(folder.get(), &status) != 0) return fail_with_errno(errno, "examine the folder");
  constexpr mode_t kShared = S_ISVTX | S_IWOTH;
  return (status.st_mode & kShared) == kShared && link.st_uid != ::geteuid() &&
         link.st_uid != status.st_uid;
}

Result<fs::path> read_link(const SaveTarget& link, FileOps& ops) {
  std::array<char, PATH_MAX> text = {};
  const ssize_t length =
      ops.readlinkat(link.folder.get(), link.name.c_str(), text.data(), text.size());
  if (length < 0) return fail_with_errno(errno, "follow the symbolic link");
  return fs::path(std::string_view(text.data(), static_cast<std::size_t>(length)));
}

// Checks that the system finds the same file at `requested`. Links in /proc/self/fd read "name
// (deleted)" if the file was deleted, and "pipe:[1]" if it has no name.
Result<bool> is_found_at(const fs::path& requested, const std::optional<struct stat>& file,
                         FileOps& ops) {
  struct stat found = {};
  if (ops.fstatat(AT_FDCWD, requested.c_str(), &found, 0) != 0) {
    // Other errors do not mean that there is no file: EACCES may also mean a link that the system
    // refuses to follow.
    if (errno != ENOENT) return fail_with_errno(errno, "follow the symbolic link");
    return !file.has_value();
  }
  return file && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

// nullopt if the file was replaced during the search.
Result<std::optional<SaveTarget>> follow(const fs::path& requested, bool replace, bool follow_links,
                                         FileOps& ops) {
  constexpr int kMaxLinks = 40;  // as many as Linux follows
  SaveTarget target;
  fs::path path = requested;
  for (int links = 0; links <= kMaxLinks; ++links) {
    target.name = path.filename().native();
    if (target.name.empty() || target.name == "." || target.name == "..") {
      return fail(ErrorCode::kNotARegularFile, "the target names a directory, not a file");
    }
    const int from = target.folder.is_open() ? target.folder.get() : AT_FDCWD;
    auto folder = open_folder(from, path.parent_path(), ops);
    if (!folder) return propagate(folder);
    target.folder = std::move(*folder);
    const auto file = target.examine(ops);
    if (!file) return propagate(file);
    if (*file && !replace) {
      return fail(ErrorCode::kFileExists,
                  "a file of that name exists, and this save must not replace it");
    }
    if (!*file || !S_ISLNK((*file)->st_mode)) {
      const auto found = links > 0 ? is_found_at(requested, *file, ops) : true;
      if (!found) return propagate(found);
      if (!*found) return std::optional<SaveTarget>();
      if (*file && !S_ISREG((*file)->st_mode)) {
        return fail(ErrorCode::kNotARegularFile,
                    "the target exists and is not a regular file; choose another name");
      }
      if (*file) {
        if (auto ok = check_may_replace(**file, target.folder, ops); !ok) return propagate(ok);
      }
      return target;
    }
    if (!follow_links) {
      return fail(ErrorCode::kNotARegularFile,
                  "the target is a symbolic link; remove it or choose another name");
    }
    const auto strangers = is_strangers(**file, target.folder, ops);
    if (!strangers) return propagate(strangers);
    if (*strangers) {
      return fail(ErrorCode::kIoError,
                  "the target is another user's symbolic link in a folder that all users share, "
                  "and it may lead anywhere; remove the link or choose another name");
    }
    auto next = read_link(target, ops);
    if (!next) return propagate(next);
    path = std::move(*next);
  }
  return fail_with_errno(ELOOP, "follow the symbolic link");
}

}  // namespace

Result<std::optional<struct stat>> SaveTarget::examine(FileOps& ops) const {
  struct stat status = {};
  if (ops.fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno != ENOENT) return fail_with_errno(errno, "examine the target");
  return std::optional<struct stat>();
}

Result<SaveTarget> find_save_target(const fs::path& requested, bool replace, bool follow_links,
                                    FileOps& ops) {
  if (auto ok = check_no_nul(requested); !ok) return propagate(ok);
  // Another writer may replace the file between two tries, but not every time.
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    auto target = follow(requested, replace, follow_links, ops);
    if (!target) return propagate(target);
    if (*target) return std::move(**target);
  }
  return fail(ErrorCode::kNotARegularFile,
              "the target is a link to a file that has no name; choose another name");
}

}  // namespace espalier
