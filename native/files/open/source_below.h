// Opens the further files of a checkpoint in a folder.
#ifndef ESPALIER_FILES_OPEN_SOURCE_BELOW_H_
#define ESPALIER_FILES_OPEN_SOURCE_BELOW_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "espalier/error.h"
#include "espalier/source.h"

namespace espalier {

/// open_source() of the file `name` of `folder`, or of a folder below it: as
/// open_regular_file_below() finds it.
[[nodiscard]] Result<std::shared_ptr<const Source>> open_source_below(
    const std::filesystem::path& folder, std::string_view name, Access access);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_SOURCE_BELOW_H_
