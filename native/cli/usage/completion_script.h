// Scripts that complete the command line in shells.
#ifndef ESPALIER_CLI_USAGE_COMPLETION_SCRIPT_H_
#define ESPALIER_CLI_USAGE_COMPLETION_SCRIPT_H_

#include <string>

#include "cli/usage/usage.h"

namespace espalier::cli {

// Each completes commands, options, words that are values of options, files, and key paths of the
// first existing file on the line. Key paths come from the hidden command `complete-path`.

/// For bash 3.2 and later; needs no package.
std::string bash_completion(const CommandUsage& program);
/// For zsh 5: a file `_espalier` for $fpath, which may also be sourced.
std::string zsh_completion(const CommandUsage& program);
/// For fish 3.
std::string fish_completion(const CommandUsage& program);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_COMPLETION_SCRIPT_H_
