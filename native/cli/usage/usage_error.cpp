#include "cli/usage/usage_error.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/opening/urls.h"
#include "espalier/base/near_miss.h"

namespace espalier::cli {
namespace {

bool is_option(std::string_view argument) {
  return argument.size() > 1 && argument[0] == '-' && argument != "--";
}

// "--name" of "--name=value", and for a long name after one dash also "--name".
std::string name_of(std::string_view argument) {
  std::string name(argument.substr(0, argument.find('=')));
  return name.starts_with("--") || name.size() == 2 ? name : "-" + name;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool has_option(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name) != nullptr;
}

// The names of the commands that have an option.
std::string commands_with(const CLI::App& app, const std::string& option) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty() || !has_option(*command, option)) continue;
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

std::string no_such_option(const CLI::App& app, const CLI::App& command,
                           const std::string& argument) {
  const std::string name = name_of(argument);
  // A mistake with a short option, such as -x: its one letter is like nothing.
  const auto meant = near_miss(name, option_names(command));
  std::string message = "there is no option '" + shown_name(argument) + "'";
  if (meant) return message + did_you_mean(meant);
  const std::string others = commands_with(app, name);
  if (others.empty()) return message;
  if (&command != &app) {
    return message + " here; " + others +
           (others.find(',') == std::string::npos ? " has it" : " have it");
  }
  return message + " before the command; write it after the command";
}

// The first argument that is an option and was not expected.
std::optional<std::string> unknown_option(const CLI::App& command) {
  const auto rest = command.remaining();
  const auto option = std::find_if(rest.begin(), rest.end(), is_option);
  return option == rest.end() ? std::nullopt : std::optional(*option);
}

// How many of the arguments behind this one, which is an option, CLI11 takes for its values,
// whatever they are.
std::size_t values_behind(const CLI::App& command, const std::string& argument) {
  const auto taken_by = [&](const std::string& name) -> std::optional<std::size_t> {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr || option->get_items_expected_max() == 0) return std::nullopt;
    return std::min(option->get_type_size_min(), option->get_items_expected_min());
  };
  if (argument.starts_with("--")) {
    // CLI11 takes "--name=" for "--name".
    const std::size_t equals = argument.find('=');
    const bool has_value = equals != std::string::npos && equals + 1 < argument.size();
    return has_value ? 0 : taken_by(argument.substr(0, equals)).value_or(0);
  }
  // Flags, and perhaps an option, whose value may follow at once: "-qo", "-qoOUT".
  for (std::size_t i = 1; i < argument.size(); ++i) {
    if (const auto taken = taken_by({'-', argument[i]}))
      return i + 1 < argument.size() ? 0 : *taken;
  }
  return 0;
}

}  // namespace

bool asks_for_json(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (is_option(argument)) {
      if (argument == "--json" || argument.starts_with("--json=")) return true;
      const bool is_format = argument == "--format" && i + 1 < arguments.size();
      if (argument == "--format=json" || (is_format && arguments[i + 1] == "json")) return true;
      i += values_behind(*command, argument);
    } else if (command == &app) {
      if (const CLI::App* found = find_command(app, argument)) command = found;
    }
  }
  return false;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty() && command->get_name() == name) return command;
  }
  return nullptr;
}

std::string no_such_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return "there is no command '" + shown_name(name) + "'" + did_you_mean(near_miss(name, names));
}

std::string explain_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto used = app.get_subcommands();
  // An unknown option is the likeliest cause of any other error.
  if (!used.empty()) {
    if (const auto option = unknown_option(*used.back())) {
      return no_such_option(app, *used.back(), *option);
    }
  }
  const auto rest = app.remaining();
  if (!rest.empty() && is_option(rest.front())) return no_such_option(app, app, rest.front());
  if (used.empty()) {
    return rest.empty() ? "no command was given" : no_such_command(app, rest.front());
  }
  if (const auto further = used.back()->remaining(); !further.empty()) {
    return "there is an argument too many: '" + shown_name(further.front()) + "'";
  }
  return error.what();
}

}  // namespace espalier::cli
