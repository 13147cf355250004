// The text that --help prints.
#ifndef ESPALIER_CLI_USAGE_HELP_TEXT_H_
#define ESPALIER_CLI_USAGE_HELP_TEXT_H_

#include <cstddef>
#include <string>

#include "cli/usage/usage.h"

namespace espalier::cli {

/// The help on a command in lines of at most `columns` characters, as far as words allow. Examples
/// are never wrapped, because they are there to be copied.
std::string help_text(const CommandUsage& usage, std::size_t columns);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_HELP_TEXT_H_
