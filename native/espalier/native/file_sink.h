// Replaces a file by a new one, completely or not at all.
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

namespace espalier {

struct SinkOptions {
  /// Waits until the disk has the file, and its folder the name, so that it survives a loss of
  /// power. Without, only a crash of the process is survived.
  bool sync = true;
  /// Whether a file that stands at the target is replaced. Without, commit() fails if there is one
  /// by then, and create() fails if the target is a symbolic link.
  bool replace = true;
  /// The system calls; they must outlive the sink.
  FileOps* ops = &FileOps::system();
};

/// A new file under a temporary name beside its target, until commit() gives it the target's name.
/// Until then, and if anything fails, what was there before stays there, untouched. An uncommitted
/// sink removes its temporary file, unless it is destroyed in a forked child: the file is the
/// parent's. Nothing throws std::bad_alloc: that is kOutOfMemory.
class FileSink {
 public:
  /// Begins a file of `length` bytes, all zero. The target's folder must exist; a target that is a
  /// symbolic link is followed as find_save_target() says; one that is no regular file is refused
  /// (kNotARegularFile). Without `replace`, a file system that can neither rename without replacing
  /// nor link is refused here, before anything is written (kIoError).
  static Result<FileSink> create(const std::filesystem::path& target, std::uint64_t length,
                                 SinkOptions options = {});

  /// Whether a file of this name is, or was, the unfinished file of a sink.
  static bool is_temporary_name(std::string_view name);

  FileSink(FileSink&& other) noexcept = default;
  FileSink& operator=(FileSink&&) = delete;
  ~FileSink();

  /// Writes `bytes` at `offset`; completes what the system takes in part or a signal interrupts.
  /// Thread-safe for different ranges.
  Result<void> write(std::uint64_t offset, ByteSpan bytes) const;

  /// Gives the file the access rights of the one that it replaces (see AccessRights), makes it
  /// durable and puts it in the target's place. kDurabilityUnknown if it is in
  /// place, but its folder could not be made durable; every other error means that the target is as
  /// it was. Call once.
  Result<void> commit();

 private:
  /// How the file gets its name.
  enum class Placing { kReplace, kRenameExclusively, kLink };

  FileSink(FileDescriptor file, std::string temporary, SaveTarget target, SinkOptions options);

  /// Finds out how this file system can place the file without replacing another.
  Result<void> choose_placing();
  /// Keeps a file that replaces none to its owner until it is complete.
  void hide_new_file();
  Result<void> show_new_file();
  Result<void> make_durable();
  /// Gives the new file its name. Afterwards the temporary name is gone, unless it cannot be
  /// removed, which the destructor then tries again.
  Result<void> take_place();
  void remove_temporary();

  FileDescriptor file_;
  std::string temporary_;  // empty once there is nothing to remove
  SaveTarget target_;
  SinkOptions options_;
  Placing placing_ = Placing::kReplace;
  std::optional<mode_t> new_mode_;
  pid_t process_;
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_FILE_SINK_H_
