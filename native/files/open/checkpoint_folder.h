// Checkpoints that are folders.
#ifndef ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_
#define ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_

#include <filesystem>
#include <string_view>

#include "espalier/error.h"
#include "espalier/format/format_info.h"

namespace espalier {

/// The file to open for `path`: `path` itself, or .metadata in a folder of
/// torch.distributed.checkpoint. kNotARegularFile for another folder, saying what it is and what to
/// open if that can be told by the names in it.
[[nodiscard]] Result<std::filesystem::path> file_to_open(const std::filesystem::path& path);

/// Whether files of that name are opened as such. Hidden files are not, unless all of the name is
/// an ending.
bool is_named_like(const FormatInfo& format, std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_
