// The table that `espalier help formats` prints.
#ifndef ESPALIER_CLI_USAGE_FORMATS_TEXT_H_
#define ESPALIER_CLI_USAGE_FORMATS_TEXT_H_

#include <string>

namespace espalier::cli {

/// A line for each format: its name, the endings of its files, and whether commands write it.
std::string formats_text();

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_FORMATS_TEXT_H_
