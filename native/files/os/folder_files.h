// The names of the files in a folder.
#ifndef ESPALIER_FILES_OS_FOLDER_FILES_H_
#define ESPALIER_FILES_OS_FOLDER_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier {

/// All names in the folder, in no order. kFileNotFound; kIoError.
[[nodiscard]] Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_FOLDER_FILES_H_
