#include "cli/usage/usage.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

namespace espalier::cli {
namespace {

constexpr std::string_view kExample = "espalier ";

// The value of an option or argument; CLI11 gives a type its own name, such as TEXT, by default.
ValueName value_of(const CLI::Option& option, std::string_view argument) {
  const std::string type = option.get_type_name();
  if (type.find('|') != std::string::npos) return {type};
  return {argument.empty() ? type : std::string(argument)};
}

OptionUsage option_usage(const CLI::Option& option) {
  OptionUsage usage;
  for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) usage.value = value_of(option, {});
  usage.description = option.get_description();
  return usage;
}

ArgumentUsage argument_usage(const CLI::Option& option) {
  const std::string name = option.get_name(true, false);
  return {name, value_of(option, name), option.get_description(), option.get_required(),
          option.get_items_expected_max() >= CLI::detail::expected_max_vector_size};
}

void add_option(std::vector<OptionGroup>& groups, const CLI::Option& option) {
  const std::string& title = option.get_group();
  if (title.empty()) return;  // hidden
  auto group = std::find_if(groups.begin(), groups.end(),
                            [&](const OptionGroup& g) { return g.title == title; });
  if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
  group->options.push_back(option_usage(option));
}

}  // namespace

ValueName::Kind ValueName::kind() const {
  if (name.find('|') != std::string::npos) return Kind::kWords;
  static constexpr std::array kFiles = {"FILE", "IN", "OUT", "A", "B"};
  const std::string last = name.substr(name.rfind(' ') + 1);
  if (std::find(kFiles.begin(), kFiles.end(), last) != kFiles.end()) return Kind::kFile;
  if (name == "DIR") return Kind::kFolder;
  if (name == "PATH" || name == "PATTERN") return Kind::kKeyPath;
  return name == "COMMAND" ? Kind::kCommand : Kind::kAny;
}

std::vector<std::string> ValueName::words() const {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '|');) words.push_back(word);
  return words;
}

std::string ArgumentUsage::shown() const {
  // A name of several words says by itself which of them is repeated: "IN OUT", "IN... OUT".
  const bool is_spelt_out = name.find(' ') != std::string::npos;
  return is_repeated && !is_spelt_out ? name + "..." : name;
}

std::string CommandUsage::short_name() const { return name.substr(name.rfind(' ') + 1); }

std::string CommandUsage::synopsis() const {
  std::string text = name + (groups.empty() ? "" : " [OPTIONS]");
  for (const ArgumentUsage& argument : arguments) {
    text += argument.is_required ? " " + argument.shown() : " [" + argument.shown() + "]";
  }
  for (const std::string& option : required_options) text += " " + option;
  return commands.empty() ? text : text + " COMMAND ...";
}

CommandUsage usage_of(const CLI::App& command) {
  CommandUsage usage;
  const CLI::App* parent = command.get_parent();
  usage.name = (parent != nullptr ? parent->get_name() + " " : "") + command.get_name();
  usage.summary = command.get_description();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      usage.arguments.push_back(argument_usage(*option));
    } else {
      add_option(usage.groups, *option);
      if (option->get_required()) {
        const OptionUsage required = option_usage(*option);
        usage.required_options.push_back(required.names.front() + " " + required.value.name);
      }
    }
  }
  for (const CLI::App* subcommand : command.get_subcommands({})) {
    if (!subcommand->get_group().empty()) usage.commands.push_back(usage_of(*subcommand));
  }
  // The footer: a line for each example, and notes.
  std::istringstream footer(command.get_footer());
  for (std::string line; std::getline(footer, line);) {
    if (line.starts_with(kExample)) {
      usage.examples.push_back(std::move(line));
    } else {
      usage.notes += (usage.notes.empty() ? "" : " ") + line;
    }
  }
  return usage;
}

}  // namespace espalier::cli
