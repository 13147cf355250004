// What --version prints.
#ifndef ESPALIER_CLI_USAGE_VERSION_H_
#define ESPALIER_CLI_USAGE_VERSION_H_

#include <string>

namespace espalier::cli {

/// "espalier X.Y.Z", and a line each for the file format, for zstd, and for how the program was
/// built.
std::string version_text();

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_VERSION_H_
