// The command line `espalier`: sets up the subcommands, and turns errors into exit codes.

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "cli/usage/help_text.h"
#include "cli/usage/usage_error.h"
#include "cli/usage/version.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {
namespace {

int to_int(ExitCode code) { return static_cast<int>(code); }

int finish(Output& out, ExitCode code) {
  auto finished = out.finish();
  if (finished) return to_int(code);
  // End like other programs whose output pipe is closed, even if SIGPIPE is ignored.
  if (out.is_abandoned()) return to_int(ended_by(SIGPIPE));
  print_error(describe(finished.error()));
  return to_int(ExitCode::kIo);
}

// If an option may have several values, CLI11 takes an argument like "[ab]" for a list; here it is
// a pattern. A guard byte that no argument can hold keeps it whole.
constexpr char kGuard = '\0';

std::vector<std::string> guarded_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : arguments) {
    if (argument.starts_with('[') && argument.ends_with(']')) argument += kGuard;
  }
  return arguments;
}

void remove_guards(std::string& text) { std::erase(text, kGuard); }

// Makes every option remove guards before it looks at its value.
void expect_guards(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0) continue;
      option->transform(CLI::Validator(
          [](std::string& text) {
            remove_guards(text);
            return std::string();
          },
          ""));
    }
  }
}

// When results are coloured.
struct ColorOption {
  std::string when = "auto";

  bool is_on(int fd) const {
    if (when != "auto") return when == "always";
    // https://no-color.org
    const char* no_color = std::getenv("NO_COLOR");
    return is_capable_terminal(fd) && (no_color == nullptr || *no_color == '\0');
  }
};

// Adds --color to the commands that print results.
void add_color_option(CLI::App& app, ColorOption& color) {
  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_option_no_throw("--json") == nullptr) continue;
    command
        ->add_option("--color", color.when,
                     "Colour paths, types and damage; auto (the default) does so in a terminal, "
                     "unless the variable NO_COLOR is set. JSON has no colours")
        ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
        ->type_name("auto|always|never")
        ->group(kOutputGroup);
  }
}

std::string exit_code_notes() {
  std::string notes = "Exit codes:";
  for (const ExitCodeMeaning& entry : kExitCodeMeanings) {
    notes += std::string(entry.code == ExitCode::kOk ? "" : ",") + " " +
             std::to_string(to_int(entry.code)) + " " + entry.meaning;
  }
  return notes + ".";
}

void add_commands(CLI::App& app, Action& action) {
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("-V,--version", "", "Print the versions of the program and its parts");
  app.require_subcommand(1);
#define ESPALIER_ADD(name) add_##name(app, action);
  ESPALIER_COMMANDS(ESPALIER_ADD)
#undef ESPALIER_ADD
  set_examples(app, {"espalier ls run.espalier", "espalier help ls"});
  app.footer(app.get_footer() + "\n" + exit_code_notes());
}

// As a command on several files has it. No file begins with "-": that is an option.
void write_failure(Output& out, const Failure& failure) {
  const bool is_file = !failure.file.empty() && !failure.file.starts_with('-');
  Error error = failure.error;
  if (!is_file && !failure.file.empty()) error.message = failure.file + ": " + error.message;
  JsonWriter json(out);
  json.begin_object();
  json.key("file");
  is_file ? json.value(shown_name(failure.file)) : json.null();
  json.key("failure");
  json.begin_object();
  write_error_members(json, error);
  json.end_object();
  json.end_object();
  out.put('\n');
}

int usage_error(const CLI::App& app, bool is_json, std::string message, Output& out) {
  remove_guards(message);
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::string command = "espalier";
  for (const CLI::App* used : app.get_subcommands()) command += " " + used->get_name();
  // An argument that the message quotes may be a URL with a password.
  const Error error(ErrorCode::kInvalidArgument, Error::kNoOffset, {},
                    shown_name(message) + " (see '" + command + " --help')");
  if (is_json) {
    write_failure(out, {{}, error});
    if (const int printed = finish(out, ExitCode::kOk); printed != to_int(ExitCode::kOk)) {
      return printed;
    }
  }
  print_error(error.message);
  return to_int(ExitCode::kUsage);
}

void parse(CLI::App& app, std::vector<std::string> arguments) {
  for (const std::string& argument : arguments) {
    // An empty value (an unset variable in a script) must not select the default level.
    if (argument == "--compress=") {
      throw CLI::ValidationError(argument,
                                 "no level; it is 1 (fast) to 9 (thorough), or 0 for none");
    }
  }
  // CLI11 wants the last one first.
  std::reverse(arguments.begin(), arguments.end());
  app.parse(std::move(arguments));
}

int run(int argc, char** argv) {
  CLI::App app("Look into, check, compare, cut, convert and view training checkpoints", "espalier");
  Action action;
  ColorOption color;
  add_commands(app, action);
  add_color_option(app, color);
  expect_guards(app);

  Output out(STDOUT_FILENO);
  const auto arguments = guarded_arguments(argc, argv);
  const bool is_json = asks_for_json(app, arguments);
  try {
    parse(app, arguments);
  } catch (const CLI::CallForHelp&) {
    const auto used = app.get_subcommands();
    const CLI::App& subject = used.empty() ? app : *used.back();
    out.write(help_text(usage_of(subject), terminal_columns(STDOUT_FILENO)));
    return finish(out, ExitCode::kOk);
  } catch (const CLI::CallForVersion&) {
    out.write(version_text());
    return finish(out, ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, is_json, explain_usage(app, error), out);
  }

  out.set_colors(Colors(color.is_on(STDOUT_FILENO)));
  const Outcome outcome = action(out);
  if (outcome) return finish(out, *outcome);
  if (is_json && out.take_back()) write_failure(out, outcome.error());
  // Flush results that were printed before the failure, then print its message.
  if (const int printed = finish(out, ExitCode::kOk); printed != to_int(ExitCode::kOk)) {
    return printed;
  }
  print_error(describe(outcome.error()));
  return to_int(exit_code(outcome.error().error.code));
}

// A model may have thousands of files, which all stay open. The usual soft limit is low for the
// sake of programs that call select().
void allow_many_files() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
#ifdef __APPLE__
  // More is refused.
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, OPEN_MAX);
#endif
  // If it fails, opening too many files says what to do.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace espalier::cli

int main(int argc, char** argv) {
  using espalier::cli::ExitCode;
  espalier::cli::reserve_standard_streams();
  espalier::cli::allow_many_files();
  // With SIGXFSZ ignored, a file at its size limit is an error of write(), and the save cleans up.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return espalier::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    espalier::cli::print_error("out of memory (code out_of_memory)");
    return static_cast<int>(ExitCode::kMemory);
  }
}
