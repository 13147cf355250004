// Manual pages.
#ifndef ESPALIER_CLI_USAGE_MAN_PAGE_H_
#define ESPALIER_CLI_USAGE_MAN_PAGE_H_

#include <string>

#include "cli/usage/usage.h"

namespace espalier::cli {

/// The page on a command, in roff with the macros of man(7). `program` is the usage of the whole
/// program, and may be the command itself.
std::string man_page(const CommandUsage& command, const CommandUsage& program);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_MAN_PAGE_H_
