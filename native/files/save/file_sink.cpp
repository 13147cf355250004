#include "espalier/file_sink.h"

#include <array>
#include <cerrno>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "espalier/base/counted.h"
#include "files/os/access_rights.h"
#include "files/os/file_ops.h"
#include "files/os/out_of_memory.h"
#include "files/os/posix.h"
#include "files/os/save_target.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryPrefix = ".espalier-";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kRandomDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kDigitCount = 12;
// Blocks of file systems that share them have this size or, rarely, a multiple.
constexpr std::uint64_t kBlockBytes = 4096;

// The length does not depend on the target's name, which may be as long as the file system allows.
Result<std::string> temporary_name() try {
  std::random_device random;
  std::uniform_int_distribution<std::size_t> digit(0, kRandomDigits.size() - 1);
  std::string name(kTemporaryPrefix);
  for (std::size_t i = 0; i < kDigitCount; ++i) name += kRandomDigits[digit(random)];
  return name += kTemporarySuffix;
} catch (const std::runtime_error&) {
  // std::random_device throws if it has no source.
  return fail(ErrorCode::kIoError, "the system provides no random numbers for a temporary name");
}

// Locks a file that was just made. Returns false if it is being removed, because it looked like the
// remains of a dead save before it had the lock. A file system may have no locks: then nothing
// removes such files.
Result<bool> lock_new_file(const FileDescriptor& folder, const std::string& name, int fd,
                           FileOps& ops) {
  if (uninterrupted([&] { return ops.lock(fd); }) != 0) return errno != EWOULDBLOCK;
  struct stat status = {};
  if (ops.fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  const int error = errno;
  ops.unlinkat(folder.get(), name.c_str());
  return fail_with_errno(error, "examine a new file");
}

// Opens an empty file without a name, which the system removes when the process ends in whatever
// way, and locks it: see name_file(). Not open where that cannot be.
FileDescriptor open_nameless(const FileDescriptor& folder, mode_t mode, FileOps& ops) {
  FileDescriptor file;
#ifdef O_TMPFILE
  file =
      FileDescriptor(uninterrupted([&] {
                       return ops.openat(folder.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
                     }),
                     ops);
  if (file.is_open()) (void)uninterrupted([&] { return ops.lock(file.get()); });
#else
  (void)folder, (void)mode, (void)ops;
#endif
  return file;
}

constexpr int kMaxNames = 100;  // that are tried, because others have them

// Gives a file without a name a unique one in the folder, and returns that.
Result<std::string> name_file(int fd, const FileDescriptor& folder, FileOps& ops) {
  for (int attempt = 0; attempt < kMaxNames; ++attempt) {
    auto name = temporary_name();
    if (!name || ops.link_open_file(fd, folder.get(), name->c_str()) == 0) return name;
    if (errno != EEXIST) break;
  }
  return fail_with_errno(errno, "give the file a name in the target's folder");
}

// Creates an empty file with a unique name in the folder, and locks it.
Result<FileDescriptor> create_temporary(const FileDescriptor& folder, mode_t mode,
                                        std::string& temporary, FileOps& ops) {
  for (int attempt = 0; attempt < kMaxNames; ++attempt) {
    auto name = temporary_name();
    if (!name) return propagate(name);
    FileDescriptor file(uninterrupted([&] {
                          return ops.openat(folder.get(), name->c_str(),
                                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
                        }),
                        ops);
    if (file.is_open()) {
      const auto is_ours = lock_new_file(folder, *name, file.get(), ops);
      if (!is_ours) return propagate(is_ours);
      if (!*is_ours) {
        errno = EEXIST;
        continue;
      }
      temporary = std::move(*name);
      return file;
    }
    if (errno != EEXIST) break;
  }
  return fail_with_errno(errno, "create a file in the target's folder");
}

tl::unexpected<Error> target_exists() {
  return fail(ErrorCode::kFileExists,
              "a file of that name exists, and this save must not replace it");
}

// Returns 0 or the errno. Takes no memory.
int sync_folder(const FileDescriptor& folder, FileOps& ops) {
  // Some file systems cannot sync folders; then there is nothing to wait for.
  return ops.fsync(folder.get()) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

}  // namespace

// The new file of a sink.
class FileSink::File {
 public:
  explicit File(const SinkOptions& options) : options_(options), process_(::getpid()) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { remove_temporary(); }

  [[nodiscard]] static Result<std::unique_ptr<File>> begin(const fs::path& requested,
                                                           const SinkOptions& options);
  void set_path(std::string path) { path_ = std::move(path); }
  const SaveTarget& target() const { return target_; }

  [[nodiscard]] Result<void> reserve(std::uint64_t length);
  [[nodiscard]] Result<void> write(std::uint64_t offset, ByteSpan bytes);
  [[nodiscard]] Result<bool> share(std::uint64_t offset, const ByteSource& source,
                                   const Extent& extent);
  [[nodiscard]] Result<bool> copy(std::uint64_t offset, const ByteSource& source,
                                  const Extent& extent);
  [[nodiscard]] Result<void> commit();

 private:
  // How the file gets its name.
  enum class Placing { kReplace, kRenameExclusively, kLink };

  // The same error with the name of the file.
  tl::unexpected<Error> in_file(tl::unexpected<Error> failed) const;
  // Creates the empty file: without a name where the system lets it have one later.
  [[nodiscard]] Result<void> create_file(mode_t mode);
  // Gives a file without a name its temporary one.
  [[nodiscard]] Result<void> take_temporary_name();
  // Finds out how this file system can place the file without replacing another.
  [[nodiscard]] Result<void> choose_placing();
  // Restricts a file that replaces none to its owner until it is complete.
  void hide_new_file();
  [[nodiscard]] Result<void> show_new_file();
  [[nodiscard]] Result<void> make_durable();
  // Gives the new file its name and removes the temporary name. If that cannot be removed, the
  // destructor tries again.
  [[nodiscard]] Result<void> take_place();
  void remove_temporary();

  FileDescriptor file_;
  std::string temporary_;  // empty if there is nothing to remove: before it, and at the end
  SaveTarget target_;
  std::string path_;  // as it was given, for errors
  // Holds the lock of the temporary file when file_ is closed, until it has its name.
  FileDescriptor lock_;
  SinkOptions options_;
  Placing placing_ = Placing::kReplace;
  std::optional<mode_t> new_mode_;
  pid_t process_;
};

Result<std::unique_ptr<FileSink::File>> FileSink::File::begin(const fs::path& requested,
                                                              const SinkOptions& options) {
  // Before the file: without memory, there must be nothing to remove.
  auto made = std::make_unique<File>(options);
  FileOps& ops = *options.ops;
  auto target = find_save_target(requested, options.replace, options.follow_links, ops);
  if (!target) return propagate(target);
  const auto old = target->examine(ops);
  if (!old) return propagate(old);
  made->target_ = std::move(*target);
  // Private content stays private from the start: a process that opened the file in between could
  // read all of it.
  const mode_t mode = *old ? (*old)->st_mode & mode_t{0600} : mode_t{0666};
  if (auto ok = made->create_file(mode); !ok) return propagate(ok);
  if (!*old) made->hide_new_file();
  return made;
}

Result<void> FileSink::File::create_file(mode_t mode) {
  FileOps& ops = *options_.ops;
  // Whether such a file can get a name is tried on another one, now and not after minutes of
  // writing. One whose name was removed gets no second one.
  if (const FileDescriptor tried = open_nameless(target_.folder, mode_t{0600}, ops);
      tried.is_open()) {
    if (auto name = name_file(tried.get(), target_.folder, ops)) {
      temporary_ = std::move(*name);
      if (auto ok = choose_placing(); !ok) return ok;
      // Try twice, because nothing else would remove it later.
      const auto remove = [&] {
        return ops.unlinkat(target_.folder.get(), temporary_.c_str()) == 0;
      };
      if (!remove() && !remove()) return fail_with_errno(errno, "remove a temporary name");
      temporary_.clear();
      file_ = open_nameless(target_.folder, mode, ops);
      if (file_.is_open()) return {};
    }
  }
  auto file = create_temporary(target_.folder, mode, temporary_, ops);
  if (!file) return propagate(file);
  file_ = std::move(*file);
  return choose_placing();
}

Result<void> FileSink::File::take_temporary_name() {
  FileOps& ops = *options_.ops;
  auto name = name_file(file_.get(), target_.folder, ops);
  if (!name) return propagate(name);
  temporary_ = std::move(*name);
  // Its bytes are on the disk, but perhaps not yet where they are found: Btrfs writes no more about
  // a file that has no name.
  if (!options_.sync || ops.fsync(file_.get()) == 0) return {};
  return fail_with_errno(errno, "flush the file to the disk");
}

tl::unexpected<Error> FileSink::File::in_file(tl::unexpected<Error> failed) const {
  failed.value().file = path_;
  return failed;
}

Result<void> FileSink::File::reserve(std::uint64_t length) try {
  FileOps& ops = *options_.ops;
  if (length > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return in_file(fail_with_errno(EFBIG, "create the file"));
  }
  if (length == 0) return {};
  const int fd = file_.get();
  if (uninterrupted([&] { return ops.ftruncate(fd, static_cast<off_t>(length)); }) != 0) {
    return in_file(fail_with_errno(errno, "set the file's length"));
  }
  // Reserve the space now: a full disk fails at once, not after minutes, and writing is faster.
  // File systems that cannot reserve space work too.
  if (ops.fallocate(fd, static_cast<off_t>(length)) != 0 && (errno == ENOSPC || errno == EDQUOT)) {
    return in_file(fail_with_errno(errno, "reserve " + counted(length, "byte") + " for the file"));
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> FileSink::File::choose_placing() {
  if (options_.replace) return {};
  FileOps& ops = *options_.ops;
  // Try it on the empty file now, not after minutes of writing.
  auto name = temporary_name();
  if (!name) return propagate(name);
  const int folder = target_.folder.get();
  if (ops.renameat_exclusively(folder, temporary_.c_str(), name->c_str()) == 0) {
    placing_ = Placing::kRenameExclusively;
    temporary_ = std::move(*name);
    return {};
  }
  placing_ = Placing::kLink;
  if (ops.linkat(folder, temporary_.c_str(), name->c_str()) != 0) {
    return fail_with_errno(
        errno,
        "give a file its name on this file system without a risk of replacing another file; allow "
        "the save to replace files, or choose another folder");
  }
  // Try twice, because nothing else would remove it later.
  const auto remove = [&] { return ops.unlinkat(folder, name->c_str()) == 0; };
  if (remove() || remove()) return {};
  return fail_with_errno(errno, "remove a temporary name");
}

void FileSink::File::remove_temporary() {
  // A forked child's copy must not remove its parent's file.
  if (temporary_.empty() || process_ != ::getpid()) return;
  if (options_.ops->unlinkat(target_.folder.get(), temporary_.c_str()) == 0) temporary_.clear();
}

Result<void> FileSink::File::write(std::uint64_t offset, ByteSpan bytes) try {
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted([&] {
      return options_.ops->pwrite(file_.get(), bytes.data(), bytes.size(),
                                  static_cast<off_t>(offset));
    });
    if (n < 0) return in_file(fail_with_errno(errno, "write the file", offset));
    // No progress and no error: a retry might loop for ever.
    if (n == 0) return in_file(fail_with_errno(EIO, "write the file", offset));
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// Where the system or the source refuses, the caller makes and writes the bytes, and then learns
// what is wrong with them.
Result<bool> FileSink::File::share(std::uint64_t offset, const ByteSource& source,
                                   const Extent& extent) {
  const auto from = source.descriptor(extent.file);
  // Only whole blocks can be shared.
  const std::uint64_t head = (kBlockBytes - offset % kBlockBytes) % kBlockBytes;
  if (!from || extent.offset % kBlockBytes != offset % kBlockBytes) return false;
  if (extent.length < head + kBlockBytes) return false;
  const std::uint64_t tail = (extent.length - head) % kBlockBytes;
  const auto clone = [&] {
    return options_.ops->clone_range(*from, static_cast<off_t>(extent.offset + head),
                                     static_cast<std::size_t>(extent.length - head - tail),
                                     file_.get(), static_cast<off_t>(offset + head));
  };
  if (uninterrupted(clone) != 0) return false;
  std::array<std::byte, 2 * kBlockBytes> ends;
  const auto front = MutableByteSpan(ends).first(static_cast<std::size_t>(head));
  const auto back = MutableByteSpan(ends).last(static_cast<std::size_t>(tail));
  const std::uint64_t back_begin = extent.length - tail;
  if (!source.copy({extent.file, extent.offset, head}, front) ||
      !source.copy({extent.file, extent.offset + back_begin, tail}, back)) {
    return false;
  }
  if (auto ok = write(offset, front); !ok) return propagate(ok);
  if (auto ok = write(offset + back_begin, back); !ok) return propagate(ok);
  return true;
}

Result<bool> FileSink::File::copy(std::uint64_t offset, const ByteSource& source,
                                  const Extent& extent) {
  const auto from = source.descriptor(extent.file);
  if (!from) return false;
  for (std::uint64_t done = 0; done < extent.length;) {
    const ssize_t n = uninterrupted([&] {
      return options_.ops->copy_range(*from, static_cast<off_t>(extent.offset + done),
                                      static_cast<std::size_t>(extent.length - done), file_.get(),
                                      static_cast<off_t>(offset + done));
    });
    if (n <= 0) return false;
    done += static_cast<std::uint64_t>(n);
  }
  return true;
}

// Restricts the new file to its owner: a private file may appear at the target during the save, and
// then these bytes replace it. Keeps the permissions that the new file has for show_new_file(),
// because only the system knows the effect of the umask and a default ACL. A file system that
// refuses has no permissions to hide behind.
void FileSink::File::hide_new_file() {
  FileOps& ops = *options_.ops;
  struct stat made = {};
  if (ops.fstat(file_.get(), &made) != 0) return;
  const mode_t mode = made.st_mode & mode_t{0777};
  const auto hide = [&] { return ops.fchmod(file_.get(), mode & S_IRWXU); };
  if (uninterrupted(hide) == 0) new_mode_ = mode;
}

Result<void> FileSink::File::show_new_file() {
  FileOps& ops = *options_.ops;
  const auto show = [&] { return ops.fchmod(file_.get(), *new_mode_); };
  if (!new_mode_ || uninterrupted(show) == 0) return {};
  return fail_with_errno(errno, "give the new file its permissions");
}

// Reads the rights of the old file only now, so that a chmod during the save counts. A chmod during
// fsync(), which may take seconds, counts too.
Result<void> FileSink::File::make_durable() {
  FileOps& ops = *options_.ops;
  constexpr int kLooks = 3;  // at a file whose rights keep changing
  std::optional<AccessRights> given;
  for (int look = 0; look < kLooks; ++look) {
    Result<std::optional<AccessRights>> rights = std::nullopt;
    if (options_.replace) rights = AccessRights::of(target_, ops);
    if (!rights) return propagate(rights);
    if (look > 0 && (!*rights || (given && !(*rights)->may_differ_from(*given)))) return {};
    auto ok = *rights ? (*rights)->give_to(file_.get(), ops) : show_new_file();
    if (!ok) return ok;
    given = std::move(*rights);
    if (!options_.sync) return {};
    // Never retried: after a failed fsync, Linux marks the lost pages as clean.
    if (ops.fsync(file_.get()) != 0) return fail_with_errno(errno, "flush the file to the disk");
  }
  return {};
}

Result<void> FileSink::File::commit() try {
  FileOps& ops = *options_.ops;
  if (auto ok = make_durable(); !ok) return in_file(propagate(ok));
  if (temporary_.empty()) {
    if (auto ok = take_temporary_name(); !ok) return in_file(propagate(ok));
  }
  // Without a copy, the file is unlocked for a moment before it has its name.
  lock_ = FileDescriptor(ops.dup(file_.get()), ops);
  if (const int error = file_.close(); error != 0) {
    return in_file(fail_with_errno(error, "close the file"));
  }
  // Allocated before the rename: after it, lack of memory must not look like a failed save.
  Error unsure{ErrorCode::kDurabilityUnknown,
               Error::kNoOffset,
               {},
               "the file is complete and in place, but a power failure now might bring the old one "
               "back: the folder could not be flushed to the disk",
               path_};
  if (auto ok = take_place(); !ok) return in_file(propagate(ok));
  const int error = options_.sync ? sync_folder(target_.folder, ops) : 0;
  if (error == 0) return {};
  try {
    unsure.message += ": " + std::generic_category().message(error);
  } catch (const std::bad_alloc&) {  // The message is good enough without it.
  }
  return tl::unexpected<Error>(std::move(unsure));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> FileSink::File::take_place() {
  FileOps& ops = *options_.ops;
  const int folder = target_.folder.get();
  const char* from = temporary_.c_str();
  const char* to = target_.name.c_str();
  const auto place = [&] {
    switch (placing_) {
      case Placing::kReplace:
        return ops.renameat(folder, from, to);
      case Placing::kRenameExclusively:
        return ops.renameat_exclusively(folder, from, to);
      case Placing::kLink:
        return ops.linkat(folder, from, to);
    }
    return -1;
  };
  if (place() != 0) {
    if (errno == EEXIST && placing_ != Placing::kReplace) return target_exists();
    return fail_with_errno(errno, "give the file its name");
  }
  if (placing_ == Placing::kLink) {
    remove_temporary();
  } else {
    temporary_.clear();
  }
  return {};
}

FileSink::FileSink(std::unique_ptr<File> file) : file_(std::move(file)) {}
FileSink::FileSink(FileSink&& other) noexcept = default;
FileSink::~FileSink() = default;

Result<FileSink> FileSink::create(const FilePath& requested, SinkOptions options) try {
  if (options.ops == nullptr) options.ops = &FileOps::system();
  auto file = File::begin(requested, options);
  if (!file) {
    file.error().file = requested.text();
    return propagate(file);
  }
  (*file)->set_path(requested.text());
  return FileSink(std::move(*file));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

const SaveTarget& FileSink::target() const { return file_->target(); }

bool FileSink::is_temporary_name(std::string_view name) {
  // Exactly: programs remove such files, and must leave a user's ".espalier-precious.tmp" alone.
  if (name.size() != kTemporaryPrefix.size() + kDigitCount + kTemporarySuffix.size()) return false;
  const auto digits = name.substr(kTemporaryPrefix.size(), kDigitCount);
  return name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix) &&
         digits.find_first_not_of(kRandomDigits) == std::string_view::npos;
}

Result<void> FileSink::reserve(std::uint64_t length) { return file_->reserve(length); }

Result<void> FileSink::write(std::uint64_t offset, ByteSpan bytes) {
  return file_->write(offset, bytes);
}

Result<bool> FileSink::share(std::uint64_t offset, const ByteSource& source, const Extent& extent) {
  return file_->share(offset, source, extent);
}

Result<bool> FileSink::copy(std::uint64_t offset, const ByteSource& source, const Extent& extent) {
  return file_->copy(offset, source, extent);
}

Result<void> FileSink::commit() { return file_->commit(); }

}  // namespace espalier
