// Explains a wrong command line in one sentence.
#ifndef ESPALIER_CLI_USAGE_USAGE_ERROR_H_
#define ESPALIER_CLI_USAGE_USAGE_ERROR_H_

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace espalier::cli {

/// What is wrong with the arguments that `app` has failed to parse, with a suggestion if a command
/// or option is like an existing one. Not yet printable: it quotes arguments as they are.
std::string explain_usage(const CLI::App& app, const CLI::ParseError& error);

/// Whether the flag --json or "--format json" stands in the arguments, in their order, even if they
/// do not parse: not behind "--", and not as the value of another option.
bool asks_for_json(const CLI::App& app, std::span<const std::string> arguments);

/// The command of that name; null if there is none, or if it is hidden.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// The message for `name`, which is no command of `app`.
std::string no_such_command(const CLI::App& app, const std::string& name);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_USAGE_ERROR_H_
