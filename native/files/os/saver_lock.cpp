#include "files/os/saver_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/os/posix.h"

namespace espalier {
namespace {

constexpr char kSaverFile[] = ".espalier-saver";
// "PROCESS HOST" and a line feed. POSIX has hosts of at most 255 bytes.
constexpr std::size_t kMostHolderBytes = 300;

// What tells a file from others, whatever its names are: device and inode.
using Identity = std::pair<dev_t, ino_t>;

Identity identity_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

bool is_at(const std::filesystem::path& path, const Identity& identity) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && identity_of(status) == identity;
}

// Whoever may write to the folder may lock it, whatever the umask of the first one was.
void give_rights_of(const std::filesystem::path& folder, const FileDescriptor& file) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) == 0) ::fchmod(file.get(), status.st_mode & 0666u);
}

Result<FileDescriptor> open_saver_file(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSaverFile;
  // Not through a link, and not waiting for a FIFO, that somebody planted in a folder of all.
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (;;) {
    // In a sticky folder, Linux refuses O_CREAT for a file of another user that may be written to.
    FileDescriptor there(uninterrupted([&] { return ::open(path.c_str(), kFlags); }));
    if (there.is_open()) return there;
    if (errno == ENOENT) {
      FileDescriptor made(
          uninterrupted([&] { return ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0666); }));
      if (made.is_open()) {
        give_rights_of(folder, made);
        return made;
      }
      if (errno == EEXIST) continue;  // Another process was faster.
    }
    if (errno == ELOOP || errno == EISDIR || errno == ENXIO) {
      return fail(ErrorCode::kNotARegularFile,
                  "what stands at " + path.string() +
                      " is not a regular file (a symbolic link is none either), and nothing can be "
                      "saved to the folder without this lock; remove it");
    }
    return fail_with_errno(errno, "open the lock of the folder, " + path.string());
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Only a hint for people, so nothing here is an error.
void write_holder(const FileDescriptor& file) {
  const std::string holder = std::to_string(::getpid()) + " " + host_name() + "\n";
  if (::ftruncate(file.get(), 0) != 0) return;
  (void)!::pwrite(file.get(), holder.data(), holder.size(), 0);
}

// "process 4711 on the host trainer", as far as the file says so.
std::string read_holder(const FileDescriptor& file) {
  std::array<char, kMostHolderBytes> bytes;
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  const std::string_view text(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::size_t space = text.find(' ');
  const std::size_t end = text.find('\n');
  if (end == text.npos || space == text.npos || space == 0 || space > end ||
      text.substr(0, space).find_first_not_of("0123456789") != text.npos) {
    return "another process";
  }
  return "process " + std::string(text.substr(0, space)) + " on the host " +
         std::string(text.substr(space + 1, end - space - 1));
}

}  // namespace

// A lock that this process has. The registry's mutex guards it.
struct SaverLock::Held {
  FileDescriptor file;  // none in a forked child
  Identity identity;
  std::size_t users = 0;
};

// All locks of this process. flock() belongs to an open file, which a forked child shares: without
// closing it there, a worker that outlives its trainer would keep the trainer's folder locked.
class SaverLock::Registry {
 public:
  // Never destroyed: a lock may be released by a destructor that runs after those of this file.
  static Registry& get() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<Held>> held;

 private:
  Registry() {
    ::pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                     [] {
                       for (const auto& each : get().held) each->file = FileDescriptor();
                       get().mutex.unlock();
                     });
  }
};

Result<std::shared_ptr<const SaverLock>> SaverLock::take(const std::filesystem::path& folder) {
  Registry& registry = Registry::get();
  const std::lock_guard guard(registry.mutex);
  for (;;) {
    auto file = open_saver_file(folder);
    if (!file) return propagate(file);
    struct stat status = {};
    if (::fstat(file->get(), &status) != 0) return fail_with_errno(errno, "examine the lock");
    // A hard link could be planted to have another file overwritten, and a copy by hard links
    // would share the lock of its original.
    if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
      return fail(ErrorCode::kNotARegularFile,
                  "what stands at " + (folder / kSaverFile).string() +
                      " is not a regular file of one name, and nothing can be saved to the folder "
                      "without this lock; remove it");
    }
    const Identity identity = identity_of(status);
    const auto mine = std::find_if(
        registry.held.begin(), registry.held.end(),
        [&](const auto& each) { return each->file.is_open() && each->identity == identity; });
    if (mine != registry.held.end()) {
      std::shared_ptr<const SaverLock> another(new SaverLock(*mine));
      ++(*mine)->users;
      return another;
    }
    if (uninterrupted([&] { return ::flock(file->get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK) {
        return fail(ErrorCode::kFolderInUse,
                    read_holder(*file) +
                        " saves checkpoints to this folder, and each would remove those of the "
                        "other; end that process, or choose another folder");
      }
      return fail_with_errno(errno,
                             "lock the folder, without which processes could remove each other's "
                             "checkpoints; choose a folder on a file system with locks");
    }
    // The folder may have been removed and made anew since the file was opened.
    if (!is_at(folder / kSaverFile, identity)) continue;
    write_holder(*file);
    auto held = std::make_shared<Held>(Held{std::move(*file), identity, 1});
    registry.held.push_back(held);
    return std::shared_ptr<const SaverLock>(new SaverLock(std::move(held)));
  }
}

bool SaverLock::holds(const std::filesystem::path& folder) const {
  const std::lock_guard guard(Registry::get().mutex);
  return held_->file.is_open() && is_at(folder / kSaverFile, held_->identity);
}

SaverLock::~SaverLock() {
  Registry& registry = Registry::get();
  const std::lock_guard guard(registry.mutex);
  if (--held_->users > 0) return;
  // Whoever takes it next must not be told of this process.
  if (held_->file.is_open()) (void)!::ftruncate(held_->file.get(), 0);
  std::erase(registry.held, held_);
}

}  // namespace espalier
