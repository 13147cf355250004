// espalier completion: scripts that complete the command line; and what these scripts call.

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/usage/completion_script.h"
#include "espalier/report/node_paths.h"

namespace espalier::cli {
namespace {

struct CompletionOptions {
  std::string shell;
};

Outcome print_script(const CLI::App& app, const CompletionOptions& options, Output& out) {
  const CommandUsage usage = usage_of(app);
  if (options.shell == "bash") out.write(bash_completion(usage));
  if (options.shell == "zsh") out.write(zsh_completion(usage));
  if (options.shell == "fish") out.write(fish_completion(usage));
  return ExitCode::kOk;
}

struct PathOptions {
  CommonOptions common;
  std::string file;
  std::string begin;
};

// More would be of no use, and would take long to print.
constexpr std::uint32_t kMaxPaths = 1000;
constexpr std::uint32_t kMaxChildren = 500'000;

// A file chooses its keys. A shell would take some characters for more than a name, if it does not
// quote what it inserts: paths with others than these are left out.
bool is_harmless(std::string_view path) {
  static constexpr std::string_view kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./@%~";
  return path.find_first_not_of(kHarmless) == std::string_view::npos && !path.starts_with('-') &&
         !path.starts_with('~');
}

// One line for each child of the container that `begin` leads to, if its path begins so; containers
// end with a slash. Prints nothing if anything is wrong.
Outcome print_paths(const PathOptions& options, Output& out) {
  // The Tab key must neither wait for a server nor send it a token.
  if (is_url(options.file)) return ExitCode::kOk;
  CommonOptions common = options.common;
  common.code = CommonOptions::Code::kSilent;
  const auto file = open_file(options.file, common);
  if (!file) return ExitCode::kOk;
  const std::size_t slash = options.begin.rfind('/');
  const auto begin =
      KeyPath::parse(options.begin.substr(0, slash == std::string::npos ? 0 : slash));
  const auto parent = begin ? file->state().find(*begin) : std::nullopt;
  if (!parent) return ExitCode::kOk;
  const NodePaths paths(file->checkpoint());
  const std::uint32_t children = std::min(parent->size(), kMaxChildren);
  std::uint32_t printed = 0;
  for (std::uint32_t i = 0; i < children && printed < kMaxPaths; ++i) {
    const std::string path = paths.path(parent->child(i));
    if (!path.starts_with(options.begin) || !is_harmless(path)) continue;
    out.print("{}{}\n", path, parent->child(i).size() > 0 ? "/" : "");
    ++printed;
  }
  return ExitCode::kOk;
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  auto options = std::make_shared<CompletionOptions>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes commands in a shell");
  command->add_option("SHELL", options->shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->type_name("bash|zsh|fish")
      ->required();
  set_examples(*command, {"espalier completion bash > "
                          "~/.local/share/bash-completion/completions/espalier",
                          "espalier completion zsh > ~/.zfunc/_espalier",
                          "espalier completion fish > ~/.config/fish/completions/espalier.fish"});
  command->callback([&app, options, &action] {
    action = [&app, options](Output& out) { return print_script(app, *options, out); };
  });

  auto path_options = std::make_shared<PathOptions>();
  CLI::App* paths = app.add_subcommand("complete-path", "List key paths that begin with a text");
  paths->group("");  // hidden: only the scripts use it
  paths->add_option("FILE", path_options->file)->required();
  paths->add_option("BEGIN", path_options->begin);
  add_read_options(*paths, path_options->common);
  paths->callback([path_options, &action] {
    action = [path_options](Output& out) { return print_paths(*path_options, out); };
  });
}

}  // namespace espalier::cli
