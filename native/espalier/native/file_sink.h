// Replaces a file with a new one, completely or not at all.
#ifndef ESPALIER_NATIVE_FILE_SINK_H_
#define ESPALIER_NATIVE_FILE_SINK_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/native/file_ops.h"
#include "espalier/native/posix.h"
#include "espalier/native/save_target.h"
#include "espalier/native/sink.h"

namespace espalier {

struct SinkOptions {
  /// Waits until the file and its name in the folder are on the disk, so the save survives a power
  /// failure. Otherwise it survives only a crash of the process.
  bool sync = true;
  /// Whether to replace a file at the target. Otherwise commit() fails if the target exists by
  /// then, and create() fails if it is a symbolic link.
  bool replace = true;
  /// Whether to follow a symbolic link at the target. Otherwise create() fails if there is one.
  bool follow_links = true;
  /// The system calls; they must outlive the sink.
  FileOps* ops = &FileOps::system();
};

/// A new file under a temporary name beside its target, until commit() gives it the target's name.
/// Until then, and after any error, the old target stays untouched. The destructor of an
/// uncommitted sink removes the temporary file, except in a forked child: the file is the parent's.
/// The file is locked (flock), so that remove_dead_temporary_files() leaves it alone.
/// Functions never throw std::bad_alloc; they return kOutOfMemory. Other errors have the path that
/// create() was given as Error::file.
class FileSink : public Sink {
 public:
  /// Begins an empty file. The target's folder must exist. A symbolic link is
  /// followed as find_save_target() says. kNotARegularFile if the target is not a regular file, or
  /// a link that may not be followed.
  /// Without `replace`, kIoError if the file system can neither rename without replacing nor link:
  /// this is found here, before anything is written.
  [[nodiscard]] static Result<FileSink> create(const std::filesystem::path& target,
                                               SinkOptions options = {});

  /// The file that this one replaces or becomes.
  const SaveTarget& target() const { return target_; }

  /// Whether a sink gives such a name to its temporary file: `.espalier-`, 12 digits or small
  /// letters, `.tmp`.
  static bool is_temporary_name(std::string_view name);

  FileSink(FileSink&& other) noexcept = default;
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

  /// Gives the file the access rights of the file that it replaces (see AccessRights), makes it
  /// durable and renames it to the target. kDurabilityUnknown if it is in place but its folder
  /// could not be made durable. After every other error the target is unchanged. Call once.
  [[nodiscard]] Result<void> commit() override;

 private:
  /// How the file gets its name.
  enum class Placing { kReplace, kRenameExclusively, kLink };

  FileSink(FileDescriptor file, std::string temporary, SaveTarget target, SinkOptions options);

  [[nodiscard]] static Result<FileSink> begin(const std::filesystem::path& requested,
                                              SinkOptions options);
  /// The same error with the name of the file.
  tl::unexpected<Error> in_file(tl::unexpected<Error> failed) const;
  /// Finds out how this file system can place the file without replacing another.
  [[nodiscard]] Result<void> choose_placing();
  /// Restricts a file that replaces none to its owner until it is complete.
  void hide_new_file();
  [[nodiscard]] Result<void> show_new_file();
  [[nodiscard]] Result<void> make_durable();
  /// Gives the new file its name and removes the temporary name. If that cannot be removed, the
  /// destructor tries again.
  [[nodiscard]] Result<void> take_place();
  void remove_temporary();

  FileDescriptor file_;
  std::string temporary_;  // empty once there is nothing to remove
  SaveTarget target_;
  std::string path_;  // as it was given, for errors
  /// Holds the lock of the temporary file when file_ is closed, until it has its name.
  FileDescriptor lock_;
  SinkOptions options_;
  Placing placing_ = Placing::kReplace;
  std::optional<mode_t> new_mode_;
  pid_t process_;
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_FILE_SINK_H_
