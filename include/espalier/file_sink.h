// Replaces a file with a new one, completely or not at all, and removes what saves whose process
// ended left behind.
#ifndef ESPALIER_FILE_SINK_H_
#define ESPALIER_FILE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/sink.h"

namespace espalier {

class FileOps;
struct SaveTarget;

struct SinkOptions {
  /// Waits until the file and its name in the folder are on the disk, so the save survives a power
  /// failure. Otherwise it survives only a crash of the process.
  bool sync = true;
  /// Whether to replace a file at the target. Otherwise commit() fails if the target exists by
  /// then, and create() fails if it is a symbolic link.
  bool replace = true;
  /// Whether to follow a symbolic link at the target. Otherwise create() fails if there is one.
  bool follow_links = true;
  /// The system calls, for tests; they must outlive the sink. Null: the real ones.
  FileOps* ops = nullptr;
};

/// A new file beside its target, until commit() gives it the target's name. It has no name where
/// the system can name it later (O_TMPFILE on Linux's local file systems), and is gone if the
/// process ends; elsewhere it has a temporary name. Until then, and after any error, the old target
/// stays untouched. The destructor of an uncommitted sink removes the temporary file, except in a
/// forked child: the file is the parent's. The file is locked (flock), so that
/// remove_dead_temporary_files() leaves it alone. Functions never throw std::bad_alloc; they return
/// kOutOfMemory. Other errors have the path that create() was given as Error::file.
class FileSink : public Sink {
 public:
  /// Begins an empty file. The target's folder must exist. Symbolic links are followed, so that the
  /// file of a link is replaced and not the link; but not without SinkOptions::replace
  /// (kFileExists), nor those of other users in a folder that anyone may write to and whose sticky
  /// bit is set, such as /tmp (kIoError). kNotARegularFile if the target is not a regular file, or
  /// a link that may not be followed. Without `replace`, kIoError if the file system can neither
  /// rename without replacing nor link: this is found here, before anything is written.
  [[nodiscard]] static Result<FileSink> create(const FilePath& target, SinkOptions options = {});

  /// The file that this one replaces or becomes. For the library itself: no public header defines
  /// the type.
  const SaveTarget& target() const;

  /// Whether a sink gives such a name to its temporary file: `.espalier-`, 12 digits or small
  /// letters, `.tmp`.
  static bool is_temporary_name(std::string_view name);

  FileSink(FileSink&& other) noexcept;
  FileSink& operator=(FileSink&&) = delete;
  ~FileSink() override;

  /// Makes a file of `length` zero bytes and, where the file system can, reserves their room on the
  /// disk. kIoError if they do not fit.
  [[nodiscard]] Result<void> reserve(std::uint64_t length) override;

  /// Writes `bytes` at `offset`; continues after partial writes and signals. Thread-safe for
  /// different ranges.
  [[nodiscard]] Result<void> write(std::uint64_t offset, ByteSpan bytes) override;

  /// Shares the blocks of 4,096 bytes if the file system can (Btrfs, XFS and others with reflinks)
  /// and they begin at the same places in both files. Thread-safe like write().
  [[nodiscard]] Result<bool> share(std::uint64_t offset, const ByteSource& source,
                                   const Extent& extent) override;

  /// Lets the system copy. Thread-safe like write().
  [[nodiscard]] Result<bool> copy(std::uint64_t offset, const ByteSource& source,
                                  const Extent& extent) override;

  /// Gives the file the access rights of the file that it replaces, or fewer where the system lets
  /// this user give no more, makes it durable and renames it to the target. kDurabilityUnknown if
  /// it is in place but its folder could not be made durable. After every other error the target is
  /// unchanged. Call once.
  [[nodiscard]] Result<void> commit() override;

 private:
  class File;

  explicit FileSink(std::unique_ptr<File> file);

  std::unique_ptr<File> file_;
};

/// Removes the temporary files in `folder` (see FileSink::is_temporary_name()) that no save uses
/// any more, and returns how many. A live save, of this or another process, holds a lock (flock) on
/// its file. Where the file system has no locks nothing is removed. kFileNotFound; kIoError if a
/// folder cannot be listed, or a dead file not removed; kOutOfMemory.
[[nodiscard]] Result<std::size_t> remove_dead_temporary_files(const FilePath& folder);

}  // namespace espalier

#endif  // ESPALIER_FILE_SINK_H_
