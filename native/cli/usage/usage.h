// What the command line accepts, read from CLI11's definitions. Help, manual pages and completions
// are made from it, so they cannot disagree.
#ifndef ESPALIER_CLI_USAGE_USAGE_H_
#define ESPALIER_CLI_USAGE_USAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace espalier::cli {

/// What stands for a value in help. It also says which values there are: "tree|path|size" are
/// words, "FILE", "IN", "OUT", "A" and "B" files, as are several of these in one name, "DIR" a
/// folder, "PATH" and "PATTERN" key paths of the command's first file, "COMMAND" a command. Others
/// are anything.
struct ValueName {
  enum class Kind : std::uint8_t { kAny, kWords, kFile, kFolder, kKeyPath, kCommand };

  std::string name;  // empty if there is none

  Kind kind() const;
  /// The words of kWords.
  std::vector<std::string> words() const;
};

struct OptionUsage {
  std::vector<std::string> names;  // with dashes, short ones first
  ValueName value;
  std::string description;
};

struct OptionGroup {
  std::string title;
  std::vector<OptionUsage> options;
};

struct ArgumentUsage {
  std::string name;
  ValueName value;
  std::string description;
  bool is_required = false;
  bool is_repeated = false;

  /// "PATTERN..."; a name of several words has its own dots.
  std::string shown() const;
};

struct CommandUsage {
  std::string name;     // "espalier ls"
  std::string summary;  // one sentence without a full stop
  std::vector<ArgumentUsage> arguments;
  std::vector<std::string> required_options;  // "-o OUT"
  std::vector<OptionGroup> groups;
  std::vector<CommandUsage> commands;  // without hidden ones
  std::vector<std::string> examples;   // command lines
  std::string notes;

  /// The last word of `name`.
  std::string short_name() const;
  /// "espalier ls [OPTIONS] FILE [PATTERN...]"
  std::string synopsis() const;
};

/// The usage of a command and its subcommands.
CommandUsage usage_of(const CLI::App& command);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_USAGE_USAGE_H_
