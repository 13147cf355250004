// Writing a new checkpoint, and saying so: the end of extract and convert.
#ifndef ESPALIER_CLI_WRITE_RESULT_H_
#define ESPALIER_CLI_WRITE_RESULT_H_

#include <string>

#include "command.h"
#include "output.h"

#include "espalier/foreign/flatten.h"
#include "espalier/native/save.h"
#include "espalier/tree/value.h"

namespace espalier::cli {

struct WriteOptions {
  bool force = false;
  bool no_sync = false;
};

/// Adds --force and --no-sync.
void add_write_options(CLI::App& command, WriteOptions& options);

/// Whether `target` may be written: kInvalidArgument if something is there already, and --force is
/// not given.
Result<void> check_target(const std::string& target, const WriteOptions& options);

/// Where a new file comes from, and where it goes.
struct Route {
  std::string source;
  std::string target;
};

/// How to save, as the options say.
SaveOptions save_options(Value metadata, const WriteOptions& options, const CommonOptions& common,
                         Progress progress);

/// What a save's error is about: one of the tensors' producers (exit code 3) about the source, all
/// others about the target.
Failure save_failure(const Route& route, Error error);

/// Saves a tree as an Espalier file, with a progress bar, and prints what was written.
Outcome write_file(Output& out, const Route& route, const Value& state, Value metadata,
                   const WriteOptions& options, const CommonOptions& common);

/// Prints "TARGET: 1.2 MiB written", and what was left out, or the same in JSON.
Outcome print_written(Output& out, const Route& route, const CommonOptions& common,
                      const Losses& dropped = {});

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITE_RESULT_H_
