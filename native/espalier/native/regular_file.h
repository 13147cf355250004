// Opens a file that must be a regular file.
#ifndef ESPALIER_NATIVE_REGULAR_FILE_H_
#define ESPALIER_NATIVE_REGULAR_FILE_H_

#include <cstdint>
#include <filesystem>

#include "espalier/base/error.h"
#include "espalier/native/posix.h"

namespace espalier {

/// A file that is open for reading, and its size in bytes when it was opened.
struct RegularFile {
  FileDescriptor file;
  std::uint64_t size = 0;
};

/// Opens `path` for reading without ever waiting: kFileNotFound, kNotARegularFile (a FIFO would
/// block for ever, a device has no size), kIoError or kOutOfMemory. Thread-safe.
[[nodiscard]] Result<RegularFile> open_regular_file(const std::filesystem::path& path);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_REGULAR_FILE_H_
