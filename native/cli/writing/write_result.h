// Writes a new file and reports it: the last step of extract, convert and merge.
#ifndef ESPALIER_CLI_WRITING_WRITE_RESULT_H_
#define ESPALIER_CLI_WRITING_WRITE_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/opening/command.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "cli/writing/bases.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/save.h"
#include "espalier/value.h"
#include "files/save/save_format.h"

namespace espalier::cli {

struct TargetOptions {
  bool force = false;
  bool no_sync = false;
  bool no_metadata = false;
  std::string format;
  std::string unrepresentable = "error";
  std::string compress;        // a level, or "true" for the fast one
  std::string max_shard_size;  // of a model in several safetensors files
  std::string shards_like;     // the index of a model whose files are to be made again
  bool espalier_only = false;  // whether the command writes no other format
  bool replaces_base = false;  // whether the input may need the file that is replaced: see apply
};

/// Which formats a command writes.
enum class Formats : std::uint8_t { kAll, kTrees };

/// Whether files of this format hold one tensor and nothing else.
constexpr bool holds_one_tensor(SaveFormat format) {
  return format == SaveFormat::kNpy || format == SaveFormat::kRaw;
}

/// Adds --to, --compress, --unrepresentable, --max-shard-size, --shards-like, --no-metadata,
/// --force and --no-sync.
void add_target_options(CLI::App& command, TargetOptions& options, Formats formats);

/// Adds --compress alone.
void add_compress_option(CLI::App& command, TargetOptions& options);

/// Adds --no-metadata, --force and --no-sync alone.
void add_new_file_options(CLI::App& command, TargetOptions& options);

/// Checks that `target` may be written. kInvalidArgument if it is not a file name, if it exists and
/// is not a regular file, or if it exists and --force is not given.
[[nodiscard]] Result<void> check_target(const std::string& target, const TargetOptions& options);

/// The format to write: from --to, otherwise from the target's ending. kInvalidArgument if neither
/// selects one of the `formats`, or if the format does not support --compress or --unrepresentable.
[[nodiscard]] Result<SaveFormat> target_format(const std::string& target,
                                               const TargetOptions& options, Formats formats);

/// The source and the target of a new file.
struct Route {
  /// Empty if there are several.
  std::string source;
  std::string target;
};

/// Checks that neither this command nor another checkpoint of its folder needs the file `target`,
/// if there is one: it is about to be replaced, and they would lose it. write_file() does it by
/// itself.
[[nodiscard]] tl::expected<void, Failure> check_not_needed(const std::string& target,
                                                           const TargetOptions& options,
                                                           const CommonOptions& common);

/// A file that was written.
struct Written {
  Route route;
  std::uint64_t bytes = 0;
  Losses left_out;
  /// Whether the source has tensors whose elements are not to be had, which are placeholders in the
  /// new file.
  bool is_incomplete = false;
  /// The names of the files of a model in several, beside its index.
  std::vector<std::string> shards;
  /// The dtype and shape of the tensor, for formats that hold one.
  std::string dtype;
  std::vector<std::uint64_t> shape;
  /// The signal that stopped the save, or 0. The program must then end with ended_by().
  int stopped_by = 0;
};

/// Saves a tree, or the only tensor in it, as a file of `format`, with a progress bar. Errors of
/// the tensors' producers (with an Error::file, or exit code 3) name the source, or if there are
/// several, the one that Error::file names; all others name the target. After a signal the target
/// is unchanged, and there is no temporary file. kInvalidArgument if the target exists, and another
/// checkpoint of its folder needs it; this also holds if it is unknown what one of them needs. All
/// commands write through this function, so none can forget that. An Espalier file refers to what
/// it has in common with the bases it is written `against`.
tl::expected<Written, Failure> write_file(const Route& route, SaveFormat format, const Value& state,
                                          Value metadata, const TargetOptions& options,
                                          const CommonOptions& common, const Against& against = {});

/// kIncomplete if the new file lacks what its source should have.
ExitCode exit_code(const Written& written);
/// Prints "TARGET: 1.2 MiB written" and what was left out.
void print_written(Output& out, const Written& written);
/// Writes the members `file`, `written`, `bytes`, `left_out` and `incomplete`, for one tensor
/// `dtype` and `shape`, and for a model in several files `shards`.
void write_written_members(JsonWriter& json, const Written& written);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_WRITE_RESULT_H_
