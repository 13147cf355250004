// How every command that writes a file takes its name: the inputs come first, and the output last
// or after -o.
#ifndef ESPALIER_CLI_WRITING_OUTPUT_NAME_H_
#define ESPALIER_CLI_WRITING_OUTPUT_NAME_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/opening/command.h"

namespace espalier::cli {

/// Adds -o/--output. `what` is said of it in the help.
CLI::Option* add_output_option(CLI::App& command, std::optional<std::string>& output,
                               const std::string& what = "The file to write");

/// The output: the value of -o, or without it the last of `names`, which is taken out of them.
/// kInvalidArgument if there is none, or if fewer than `inputs` names are left.
[[nodiscard]] Result<std::string> take_output(std::vector<std::string>& names,
                                              const std::optional<std::string>& output,
                                              std::size_t inputs = 1);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_OUTPUT_NAME_H_
