// Writing a new checkpoint, and saying so: the end of extract and convert.
#ifndef ESPALIER_CLI_WRITE_RESULT_H_
#define ESPALIER_CLI_WRITE_RESULT_H_

#include <optional>
#include <string>

#include "command.h"
#include "output.h"

#include "espalier/format/catalog.h"
#include "espalier/tree/value.h"

namespace espalier::cli {

struct TargetOptions {
  bool force = false;
  bool no_sync = false;
  bool no_metadata = false;
  std::string format;
  std::string unrepresentable = "error";
  std::string compress;  // a level, or "true" for the fast one
};

/// Adds --to, --compress, --unrepresentable, --no-metadata, --force and --no-sync.
void add_target_options(CLI::App& command, TargetOptions& options);

/// Whether `target` may be written: kInvalidArgument if it is no file's name, if something is there
/// that is no regular file, or if something is there and --force is not given.
Result<void> check_target(const std::string& target, const TargetOptions& options);

/// The format to write: as --to says, otherwise as the target's name ends, otherwise `fallback`;
/// kInvalidArgument without one, or if it cannot be compressed as --compress says.
Result<FileFormat> target_format(const std::string& target, const TargetOptions& options,
                                 std::optional<FileFormat> fallback);

/// Where a new file comes from, and where it goes.
struct Route {
  std::string source;
  std::string target;
};

/// Saves a tree as a file of `format`, with a progress bar, and prints "TARGET: 1.2 MiB written"
/// and what was left out, or the same in JSON. An error of the tensors' producers (exit code 3) is
/// about the source, all others are about the target. A signal that ends the program meanwhile
/// leaves the target as it was, and nothing beside it.
Outcome write_file(Output& out, const Route& route, FileFormat format, const Value& state,
                   Value metadata, const TargetOptions& options, const CommonOptions& common);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITE_RESULT_H_
