// espalier help: the help on a command, as --help prints it.

#include <memory>

#include <unistd.h>

#include "cli/opening/command.h"
#include "cli/terminal/terminal.h"
#include "cli/usage/help_text.h"
#include "cli/usage/usage_error.h"

namespace espalier::cli {
namespace {

struct HelpOptions {
  std::string command;
};

Outcome run_help(const CLI::App& app, const HelpOptions& options, Output& out) {
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
  CLI::App* command = app.add_subcommand("help", "Print the help on a command");
  command->add_option("COMMAND", options->command, "The command; without it, all are listed");
  set_examples(*command, {"espalier help ls"});
  command->callback([&app, options, &action] {
    action = [&app, options](Output& out) { return run_help(app, *options, out); };
  });
}

}  // namespace espalier::cli
