#include "espalier/native/file_sink.h"

#include <cerrno>
#include <limits>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "espalier/native/out_of_memory.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// A name that does not grow with the target's, which may be as long as the file system allows.
Result<std::string> temporary_name() try {
  static constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit(0, sizeof kDigits - 2);
  std::string name = ".espalier-";
  for (int i = 0; i < 12; ++i) name += kDigits[digit(random)];
  return name + ".tmp";
} catch (const std::runtime_error&) {
  // std::random_device says it thus, where it has no source.
  return fail(ErrorCode::kIoError, "the system has no random numbers for a temporary name");
}

Result<FileDescriptor> create_beside(const fs::path& target, fs::path& temporary, mode_t mode,
                                     FileOps& ops) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto name = temporary_name();
    if (!name) return propagate(name);
    temporary = target.parent_path() / *name;
    FileDescriptor file(uninterrupted([&] {
                          return ops.open(temporary.c_str(),
                                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
                        }),
                        ops);
    if (file.is_open()) return file;
    if (errno != EEXIST) break;
  }
  return fail_with_errno(
      errno, "create a file in " + (target.has_parent_path() ? target.parent_path().string()
                                                             : std::string("the current folder")));
}

// The file that `path` names in the end: renaming onto a link would replace the link and leave its
// file behind. weakly_canonical() does not do, because it keeps a link whose file does not exist
// yet.
Result<fs::path> follow_links(fs::path path) {
  constexpr int kMaxLinks = 40;  // as many as Linux follows
  for (int links = 0; links < kMaxLinks; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    const fs::path next = fs::read_symlink(path, error);
    if (error) return fail_with_errno(error.value(), "follow the symbolic link");
    path = path.parent_path() / next;
  }
  return fail_with_errno(ELOOP, "follow the symbolic link");
}

// Whether the system, too, finds that file (or none) behind the link: those in /proc/self/fd say
// "name (deleted)" of a file whose name is gone.
bool leads_to(const fs::path& link, const struct stat* file, FileOps& ops) {
  struct stat found = {};
  if (ops.stat(link.c_str(), &found) != 0) return file == nullptr;
  return file != nullptr && found.st_dev == file->st_dev && found.st_ino == file->st_ino;
}

// Returns 0 or the errno. Takes no memory.
int sync_folder(const fs::path& path, FileOps& ops) {
  const FileDescriptor folder(
      uninterrupted([&] { return ops.open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); }),
      ops);
  if (!folder.is_open()) return errno;
  // Some file systems cannot sync folders, and then there is nothing to wait for.
  return ops.fsync(folder.get()) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

}  // namespace

Result<FileSink> FileSink::create(const fs::path& requested, std::uint64_t length,
                                  SinkOptions options) try {
  auto followed = follow_links(requested);
  if (!followed) return propagate(followed);
  fs::path target = std::move(*followed);
  if (target.filename().empty() || target.filename() == "." || target.filename() == "..") {
    return fail(ErrorCode::kNotARegularFile, "the target names a directory, not a file");
  }
  FileOps& ops = *options.ops;
  struct stat status = {};
  const bool exists = ops.stat(target.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return fail_with_errno(errno, "examine the target");
  if (target != requested && !leads_to(requested, exists ? &status : nullptr, ops)) {
    return fail(ErrorCode::kNotARegularFile,
                "the target is a link to a file that has no name; choose another name");
  }
  if (exists && !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kNotARegularFile,
                "the target exists and is no regular file; choose another name");
  }
  if (length > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return fail_with_errno(EFBIG, "create the file");
  }
  fs::path temporary;
  // What was private is so from the start: whoever opened it in between could read it all.
  const mode_t mode = exists ? status.st_mode & mode_t{0600} : mode_t{0666};
  auto file = create_beside(target, temporary, mode, ops);
  if (!file) return propagate(file);
  FileSink sink(std::move(*file), std::move(temporary), std::move(target), options);
  const int fd = sink.file_.get();
  if (exists && uninterrupted([&] { return ops.fchmod(fd, status.st_mode & 0777); }) != 0) {
    return fail_with_errno(errno, "give the new file the permissions of the old one");
  }
  if (uninterrupted([&] { return ops.ftruncate(fd, static_cast<off_t>(length)); }) != 0) {
    return fail_with_errno(errno, "make the file as long as it must be");
  }
  // What does not fit fails at once and not after minutes of writing, which is quicker, too, when
  // the file system need not look for room then. Not every file system can do that, and none needs.
  if (length > 0 && ops.fallocate(fd, static_cast<off_t>(length)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    return fail_with_errno(errno, "reserve room for the file");
  }
  return sink;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

FileSink::~FileSink() { remove_temporary(); }

void FileSink::remove_temporary() {
  if (temporary_.empty() || options_.ops->unlink(temporary_.c_str()) != 0) return;
  temporary_.clear();
}

Result<void> FileSink::write(std::uint64_t offset, ByteSpan bytes) const try {
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted([&] {
      return options_.ops->pwrite(file_.get(), bytes.data(), bytes.size(),
                                  static_cast<off_t>(offset));
    });
    if (n < 0) return fail_with_errno(errno, "write the file", offset);
    // No progress and no error: trying again might never end.
    if (n == 0) return fail_with_errno(EIO, "write the file", offset);
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> FileSink::commit() try {
  FileOps& ops = *options_.ops;
  // Never tried again: after a failed fsync, Linux takes the lost pages for clean ones.
  if (options_.sync && ops.fsync(file_.get()) != 0) {
    return fail_with_errno(errno, "bring the file to the disk");
  }
  if (const int error = file_.close(); error != 0) return fail_with_errno(error, "close the file");
  // Made while the target is as it was: afterwards, a lack of memory must not look like a failure.
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  Error unsure{ErrorCode::kDurabilityUnknown,
               Error::kNoOffset,
               {},
               "the file is complete and in place, but a loss of power now might bring the old "
               "one back: the folder could not be brought to the disk"};
  if (auto ok = take_place(); !ok) return ok;
  const int error = options_.sync ? sync_folder(folder, ops) : 0;
  if (error == 0) return {};
  try {
    unsure.message += ": " + std::generic_category().message(error);
  } catch (const std::bad_alloc&) {  // It says enough without.
  }
  return tl::unexpected<Error>(std::move(unsure));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> FileSink::take_place() {
  FileOps& ops = *options_.ops;
  if (options_.replace) {
    if (ops.rename(temporary_.c_str(), target_.c_str()) != 0) {
      return fail_with_errno(errno, "give the file its name");
    }
    temporary_.clear();
    return {};
  }
  // Unlike rename(), link() fails if somebody else has put a file there meanwhile.
  if (ops.link(temporary_.c_str(), target_.c_str()) != 0) {
    if (errno == EEXIST) {
      return fail(ErrorCode::kInvalidArgument,
                  "there is a file of that name, and it may not be replaced");
    }
    return fail_with_errno(errno, "give the file its name");
  }
  remove_temporary();
  return {};
}

}  // namespace espalier
