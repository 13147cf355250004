// Opens a file that must be a regular file.
#ifndef ESPALIER_FILES_OS_REGULAR_FILE_H_
#define ESPALIER_FILES_OS_REGULAR_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "espalier/error.h"
#include "files/os/posix.h"

namespace espalier {

/// What shows that a file was written to: its size in bytes, and the time of the last write. Not
/// the time of the last change of its status, which a rename or a link changes, too.
struct WriteState {
  std::uint64_t size = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  /// Nothing if the system does not tell.
  static std::optional<WriteState> of(const FileDescriptor& file);
  friend bool operator==(const WriteState&, const WriteState&) = default;
};

/// A file that is open for reading, and its state when it was opened.
struct RegularFile {
  FileDescriptor file;
  WriteState opened;

  std::uint64_t size() const { return opened.size; }
};

/// Opens `path` for reading without ever waiting: kFileNotFound, kNotARegularFile (a FIFO would
/// block for ever, a device has no size), kIoError or kOutOfMemory. Thread-safe.
[[nodiscard]] Result<RegularFile> open_regular_file(const std::filesystem::path& path);

/// Opens the file `name` of `folder`, or of a folder below it ("d/0f", see is_name_below()). Stays
/// below `folder` whatever lies there: in a name of several parts none may be a symbolic link,
/// which is kNotARegularFile. Errors as above. Thread-safe.
[[nodiscard]] Result<RegularFile> open_regular_file_below(const std::filesystem::path& folder,
                                                          std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_REGULAR_FILE_H_
