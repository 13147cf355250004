#include "espalier/native/file_sink.h"

#include <cerrno>
#include <limits>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace espalier {
namespace {

namespace fs = std::filesystem;

// A name that does not grow with the target's, which may be as long as the file system allows.
std::string temporary_name() {
  static constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit(0, sizeof kDigits - 2);
  std::string name = ".espalier-";
  for (int i = 0; i < 12; ++i) name += kDigits[digit(random)];
  return name + ".tmp";
}

Result<FileDescriptor> create_beside(const fs::path& target, fs::path& temporary) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = target.parent_path() / temporary_name();
    FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.is_open()) return file;
    if (errno != EEXIST && errno != EINTR) break;
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

int sync_file(int fd) {
#ifdef F_FULLFSYNC
  // On macOS, fsync() leaves the data in the disk's own cache.
  if (::fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
  return ::fsync(fd);
}

}  // namespace

Result<FileSink> FileSink::create(const fs::path& requested, std::uint64_t length,
                                  SinkOptions options) {
  auto followed = follow_links(requested);
  if (!followed) return propagate(followed);
  fs::path target = std::move(*followed);
  if (target.filename().empty() || target.filename() == "." || target.filename() == "..") {
    return fail(ErrorCode::kNotARegularFile, "the target names a directory, not a file");
  }
  struct stat status = {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kNotARegularFile,
                "the target exists and is no regular file; choose another name");
  }
  if (length > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return fail_with_errno(EFBIG, "create the file");
  }
  fs::path temporary;
  auto file = create_beside(target, temporary);
  if (!file) return propagate(file);
  FileSink sink(std::move(*file), std::move(temporary), std::move(target), options);
  if (exists && ::fchmod(sink.file_.get(), status.st_mode & 0777) != 0) {
    return fail_with_errno(errno, "give the new file the permissions of the old one");
  }
  int result = 0;
  do {
    result = ::ftruncate(sink.file_.get(), static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return fail_with_errno(errno, "make the file as long as it must be");
  return sink;
}

FileSink::~FileSink() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> FileSink::write(std::uint64_t offset, ByteSpan bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_with_errno(errno, "write the file", offset);
    // No progress and no error: trying again might never end.
    if (n == 0) return fail_with_errno(EIO, "write the file", offset);
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> FileSink::commit() {
  // Never tried again: after a failed fsync, Linux takes the lost pages for clean ones.
  if (options_.sync && sync_file(file_.get()) != 0) {
    return fail_with_errno(errno, "bring the file to the disk");
  }
  if (const int error = file_.close(); error != 0) return fail_with_errno(error, "close the file");
  if (options_.replace) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      return fail_with_errno(errno, "give the file its name");
    }
  } else {
    // Unlike rename(), link() fails if somebody else has put a file there meanwhile.
    if (::link(temporary_.c_str(), target_.c_str()) != 0) {
      if (errno == EEXIST) {
        return fail(ErrorCode::kInvalidArgument,
                    "there is a file of that name, and it may not be replaced");
      }
      return fail_with_errno(errno, "give the file its name");
    }
    ::unlink(temporary_.c_str());
  }
  temporary_.clear();
  if (!options_.sync) return {};
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() || ::fsync(directory.get()) != 0) {
    // Some file systems cannot sync folders, and then there is nothing to wait for.
    if (directory.is_open() && (errno == EINVAL || errno == ENOTSUP)) return {};
    return fail(ErrorCode::kDurabilityUnknown,
                "the file is complete and in place, but its folder could not be brought to the "
                "disk: " +
                    std::generic_category().message(errno) +
                    "; a loss of power now might bring the old file back");
  }
  return {};
}

}  // namespace espalier
