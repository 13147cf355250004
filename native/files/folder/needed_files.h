// Which files of a folder others there refer to: what must not be deleted.
#ifndef ESPALIER_FILES_FOLDER_NEEDED_FILES_H_
#define ESPALIER_FILES_FOLDER_NEEDED_FILES_H_

#include <filesystem>
#include <set>
#include <string>

#include "espalier/error.h"

namespace espalier {

/// The names of all files that the Espalier files in `folder`, indexes of models in several files
/// and a distributed checkpoint refer to, those named in `leaving` not counted; of a link, the file
/// of the folder that it leads to as well. An error, with Error::file, if one of them may refer to
/// files and does not open: then nothing may be deleted on a guess. A file that this user may not
/// read is such a one if its name ends in .espalier.
[[nodiscard]] Result<std::set<std::string>> needed_files(const std::filesystem::path& folder,
                                                         const std::set<std::string>& leaving);

}  // namespace espalier

#endif  // ESPALIER_FILES_FOLDER_NEEDED_FILES_H_
