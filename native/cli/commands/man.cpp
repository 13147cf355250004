// espalier man: the manual page on a command, for the build, which installs the pages.

#include <memory>

#include "cli/opening/command.h"
#include "cli/usage/man_page.h"
#include "cli/usage/usage_error.h"

namespace espalier::cli {
namespace {

struct ManOptions {
  std::string command;
  bool list = false;
};

Outcome run_man(const CLI::App& app, const ManOptions& options, Output& out) {
  const CommandUsage program = usage_of(app);
  if (options.list) {
    for (const CommandUsage& command : program.commands) out.print("{}\n", command.short_name());
    return ExitCode::kOk;
  }
  const CLI::App* subject = options.command.empty() ? &app : find_command(app, options.command);
  if (subject == nullptr) {
    return refuse("", no_such_command(app, options.command));
  }
  out.write(man_page(usage_of(*subject), program));
  return ExitCode::kOk;
}

}  // namespace

void add_man(CLI::App& app, Action& action) {
  auto options = std::make_shared<ManOptions>();
  CLI::App* command = app.add_subcommand("man", "Print a manual page in roff");
  command->group("");  // hidden
  command->add_option("COMMAND", options->command, "The command; without it, the program");
  command->add_flag("--list", options->list, "List the commands that have a page");
  command->callback([&app, options, &action] {
    action = [&app, options](Output& out) { return run_man(app, *options, out); };
  });
}

}  // namespace espalier::cli
