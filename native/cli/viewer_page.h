// Where the viewer's page is.
#ifndef ESPALIER_CLI_VIEWER_PAGE_H_
#define ESPALIER_CLI_VIEWER_PAGE_H_

#include <filesystem>
#include <string>

#include "command.h"
#include <tl/expected.hpp>

namespace espalier::cli {

/// The folder of the built page, which has an index.html: `wanted`, or if that is empty the folder
/// that the variable ESPALIER_VIEWER names, or where the page is as seen from this program,
/// installed or in its build folder. What is asked for must be there (kFileNotFound); nothing else
/// is taken for it.
tl::expected<std::filesystem::path, Failure> find_viewer_page(const std::string& wanted);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEWER_PAGE_H_
