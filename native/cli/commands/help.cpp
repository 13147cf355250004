// espalier help: the help on a command, as --help prints it, or the list of formats.

#include <memory>

#include <unistd.h>

#include "cli/opening/command.h"
#include "cli/terminal/terminal.h"
#include "cli/usage/formats_text.h"
#include "cli/usage/help_text.h"
#include "cli/usage/usage_error.h"

namespace espalier::cli {
namespace {

// In place of a command.
constexpr const char* kFormats = "formats";

struct HelpOptions {
  std::string command;
};

Outcome run_help(const CLI::App& app, const HelpOptions& options, Output& out) {
  if (options.command == kFormats) {
    out.write(formats_text());
    return ExitCode::kOk;
  }
  const CLI::App* subject = options.command.empty() ? &app : find_command(app, options.command);
  if (subject == nullptr) {
    return refuse("", no_such_command(app, options.command));
  }
  out.write(help_text(usage_of(*subject), terminal_columns(STDOUT_FILENO)));
  return ExitCode::kOk;
}

}  // namespace

void add_help(CLI::App& app, Action& action) {
  auto options = std::make_shared<HelpOptions>();
  CLI::App* command =
      app.add_subcommand("help", "Print the help on a command, or the formats of files");
  command->add_option("COMMAND", options->command,
                      "The command, or \"formats\"; without it, all commands are listed");
  set_examples(*command, {"espalier help ls", "espalier help formats"});
  command->callback([&app, options, &action] {
    action = [&app, options](Output& out) { return run_help(app, *options, out); };
  });
}

}  // namespace espalier::cli
