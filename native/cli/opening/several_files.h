// Commands that read one file or several: FILE [FILE | PATTERN]...
#ifndef ESPALIER_CLI_OPENING_SEVERAL_FILES_H_
#define ESPALIER_CLI_OPENING_SEVERAL_FILES_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/opening/command.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"

namespace espalier::cli {

/// Adds the positional PATTERN... after FILE. Its help says that files may stand there, too.
void add_file_or_pattern_arguments(CLI::App& command, std::vector<std::string>& arguments);

/// Prints what a command says of one file, or of the nodes that `patterns` select in it. `json` is
/// null for text; otherwise it writes an object. Fails before it prints anything.
using OnFile =
    std::function<Outcome(const std::string& file, const std::vector<std::string>& patterns,
                          Output& out, JsonWriter* json)>;
/// Prints that a file failed.
using OnFailure = std::function<void(const Failure& failure)>;

/// Runs `on_file` for `first_file` and the further files among `arguments`. Each argument that
/// names an existing file, is a URL of any scheme, or ends like the files of some format and
/// selects nothing in the first file, is a further file. The others are patterns. kInvalidArgument
/// if an argument names both a file and a node of the first file: then a script cannot know what it
/// gets.
///
/// With several files each gets a line with its name, or is an element of the array `files` in
/// JSON. A file that fails does not keep the others from being read; the exit code is the highest
/// of all.
///
/// With `on_failure`, the command prints in a form of its own: `json` is null, nothing is printed
/// around what `on_file` prints, and `on_failure` is told of each file that failed, also of a
/// single one.
Outcome for_each_file(const std::string& first_file, const std::vector<std::string>& arguments,
                      const CommonOptions& common, Output& out, const OnFile& on_file,
                      const OnFailure& on_failure = {});

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_SEVERAL_FILES_H_
