// Replaces a file by a new one, completely or not at all.
#ifndef ESPALIER_NATIVE_FILE_SINK_H_
#define ESPALIER_NATIVE_FILE_SINK_H_

#include <cstdint>
#include <filesystem>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/native/file_ops.h"
#include "espalier/native/posix.h"

namespace espalier {

struct SinkOptions {
  /// Waits until the disk has the file, and its folder the name, so that it survives a loss of
  /// power. Without, only a crash of the process is survived.
  bool sync = true;
  /// Whether a file that stands at the target is replaced. Without, commit() fails if there is one
  /// by then.
  bool replace = true;
  /// The system calls; they must outlive the sink.
  FileOps* ops = &FileOps::system();
};

/// A new file under a temporary name beside its target, until commit() gives it the target's name.
/// Until then, and if anything fails, what was there before stays there, untouched. An uncommitted
/// sink removes its temporary file. Nothing throws std::bad_alloc: that is kOutOfMemory.
class FileSink {
 public:
  /// Begins a file of `length` bytes, all zero. The target's folder must exist; a target that is a
  /// symbolic link is followed; one that is no regular file is refused (kNotARegularFile).
  static Result<FileSink> create(const std::filesystem::path& target, std::uint64_t length,
                                 SinkOptions options = {});

  FileSink(FileSink&& other) noexcept = default;
  FileSink& operator=(FileSink&&) = delete;
  ~FileSink();

  /// Writes `bytes` at `offset`; completes what the system takes in part or a signal interrupts.
  /// Thread-safe for different ranges.
  Result<void> write(std::uint64_t offset, ByteSpan bytes) const;

  /// Makes the file durable and puts it in the target's place. kDurabilityUnknown if it is in
  /// place, but its folder could not be made durable; every other error means that the target is as
  /// it was. Call once.
  Result<void> commit();

 private:
  FileSink(FileDescriptor file, std::filesystem::path temporary, std::filesystem::path target,
           SinkOptions options)
      : file_(std::move(file)),
        temporary_(std::move(temporary)),
        target_(std::move(target)),
        options_(options) {}

  /// Gives the new file its name. Afterwards the temporary name is gone, unless it cannot be
  /// removed, which the destructor then tries again.
  Result<void> take_place();
  void remove_temporary();

  FileDescriptor file_;
  std::filesystem::path temporary_;  // empty once there is nothing to remove
  std::filesystem::path target_;
  SinkOptions options_;
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_FILE_SINK_H_
