// Where the viewer's page is.
#ifndef ESPALIER_CLI_VIEWER_PAGE_H_
#define ESPALIER_CLI_VIEWER_PAGE_H_

#include <filesystem>
#include <string>

#include "command.h"
#include <tl/expected.hpp>

namespace espalier::cli {

/// The folder of the built page, which has an index.html: `wanted`, or if that is empty the folder
/// that the variable ESPALIER_VIEWER names, or the one that is installed with this program. A page
/// has scripts that read the files. So if the user did not ask for it, only users who can change
/// the program may be able to change its files, its folders, and the folders and links that lead to
/// it. kFileNotFound if there is none; nothing else is taken for what is asked for.
tl::expected<std::filesystem::path, Failure> find_viewer_page(const std::string& wanted);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEWER_PAGE_H_
