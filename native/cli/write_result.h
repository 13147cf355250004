// Writes a new checkpoint and reports it: the last step of extract and convert.
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

/// Checks that `target` may be written. kInvalidArgument if it is not a file name, if it exists and
/// is not a regular file, or if it exists and --force is not given.
[[nodiscard]] Result<void> check_target(const std::string& target, const TargetOptions& options);

/// The format to write: from --to, otherwise from the target's extension, otherwise `fallback`.
/// kInvalidArgument if none of them selects a format, or if the format does not support the level
/// of --compress.
[[nodiscard]] Result<FileFormat> target_format(const std::string& target,
                                               const TargetOptions& options,
                                               std::optional<FileFormat> fallback);

/// The source and the target of a new file.
struct Route {
  std::string source;
  std::string target;
};

/// Saves a tree as a file of `format`, with a progress bar. Prints "TARGET: 1.2 MiB written" and
/// what was left out, or the same in JSON. Errors of the tensors' producers (exit code 3) name the
/// source, all others the target. A signal that ends the program leaves the target unchanged, and
/// no temporary file.
Outcome write_file(Output& out, const Route& route, FileFormat format, const Value& state,
                   Value metadata, const TargetOptions& options, const CommonOptions& common);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITE_RESULT_H_
