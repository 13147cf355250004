// Removes the temporary files of saves whose process has ended.
#ifndef ESPALIER_NATIVE_TEMPORARY_FILES_H_
#define ESPALIER_NATIVE_TEMPORARY_FILES_H_

#include <cstddef>
#include <filesystem>

#include "espalier/base/error.h"

namespace espalier {

/// Removes the temporary files in `folder` (see FileSink::is_temporary_name()) that no save uses
/// any more, and returns how many. A live save, of this or another process, holds a lock (flock) on
/// its file. Where the file system has no locks nothing is removed. kFileNotFound; kIoError if a
/// folder cannot be listed, or a dead file not removed; kOutOfMemory.
[[nodiscard]] Result<std::size_t> remove_dead_temporary_files(const std::filesystem::path& folder);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_TEMPORARY_FILES_H_
