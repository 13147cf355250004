// Finds the viewer's page.
#ifndef ESPALIER_CLI_VIEW_VIEWER_PAGE_H_
#define ESPALIER_CLI_VIEW_VIEWER_PAGE_H_

#include <filesystem>
#include <string>

#include <tl/expected.hpp>

#include "cli/opening/command.h"

namespace espalier::cli {

/// Returns the folder of the built page, which has an index.html. It is `wanted`; if that is empty,
/// the folder that the variable ESPALIER_VIEWER names; otherwise the folder installed with this
/// program. The page's scripts read the files. So an installed page is used only if users who
/// cannot change the program cannot change the page's files, its folders, or the folders and links
/// that lead to it. kFileNotFound if there is no page; there is no fallback from a folder that the
/// user named.
tl::expected<std::filesystem::path, Failure> find_viewer_page(const std::string& wanted);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEW_VIEWER_PAGE_H_
