// Shared by all commands: adding them, opening files, failures and exit codes.
//
// Each command has one function that adds it to the command line. Parsing picks one Action, and
// main() runs it.
#ifndef ESPALIER_CLI_OPENING_COMMAND_H_
#define ESPALIER_CLI_OPENING_COMMAND_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <tl/expected.hpp>

#include "cli/opening/kept_files.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/output.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"

namespace espalier::cli {

ExitCode exit_code(ErrorCode code);

/// The exit code that a shell reports for a program that `signal` ended.
constexpr ExitCode ended_by(int signal) { return static_cast<ExitCode>(128 + signal); }

/// An error, and the file that it is about.
struct Failure {
  std::string file;
  Error error;
};

/// "FILE: message (code ..., at byte ..., in ...)": one printable line. Long paths and messages are
/// shortened.
std::string describe(const Failure& failure);
std::string describe(const Error& error);

using Outcome = tl::expected<ExitCode, Failure>;
using Action = std::function<Outcome(Output& out)>;

inline tl::unexpected<Failure> fail_about(std::string file, Error error) {
  // The library puts the name of a file that was opened by its path into the error. Print it once.
  if (error.file == file) error.file.clear();
  return tl::unexpected<Failure>({std::move(file), std::move(error)});
}
inline tl::unexpected<Failure> refuse(std::string file, std::string_view message) {
  return fail_about(std::move(file), {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, message});
}
/// Passes on the error of a Result: `if (!x) return about(file, x);`.
template <class T>
tl::unexpected<Failure> about(std::string file, Result<T>& failed) {
  return fail_about(std::move(file), std::move(failed.error()));
}

/// Key maps, and what they must know besides: see key_maps.h.
struct MapOptions {
  std::vector<std::string> names;  // one after the other
  bool reverse = false;
  std::vector<std::string> sizes;    // "p=64"
  std::vector<std::string> configs;  // the first that has a word counts
  std::string at;
  std::vector<std::string> along;
  bool along_scaled = false;
  std::vector<std::string> lora;
  std::string param_order;
  /// Whether the command reads tensors, so that those which must be equal are compared first.
  bool checks_data = false;
};

/// Options of all commands: how to read files, and how much to print, for people or programs.
struct CommonOptions {
  unsigned threads = 0;
  bool no_mmap = false;
  bool nest = false;
  bool json = false;
  bool quiet = false;
  /// What opening a checkpoint prints if it names code: see open_file().
  enum class Code : std::uint8_t { kTell, kListed, kSilent };
  Code code = Code::kTell;
  /// Of the commands that show a checkpoint through a map.
  MapOptions map = {};
  /// What write_file() must not replace; open_file() adds to it.
  std::shared_ptr<KeptFiles> kept = std::make_shared<KeptFiles>();
};

/// Adds --threads and --no-mmap.
void add_open_options(CLI::App& command, CommonOptions& options);
/// Adds these and --nest.
void add_read_options(CLI::App& command, CommonOptions& options);
/// Adds --json.
void add_json_option(CLI::App& command, CommonOptions& options);
/// Adds -q/--quiet, which suppresses `what`.
void add_quiet_option(CLI::App& command, CommonOptions& options, const std::string& what);
/// Adds the positional PATTERN...: any number of them.
CLI::Option* add_pattern_arguments(CLI::App& command, std::vector<std::string>& patterns);
/// Sets the command lines that help shows as examples; each begins with "espalier ".
void set_examples(CLI::App& command, std::initializer_list<const char*> examples);

/// What help says of an argument that is a checkpoint to read.
inline constexpr const char* kCheckpointHelp = "A checkpoint: a file, or an http or https URL";
inline constexpr const char* kCheckpointsHelp = "Checkpoints: files, or http or https URLs";

/// Names of groups of options in help.
inline constexpr const char* kFilterGroup = "Filters";
inline constexpr const char* kWritingGroup = "Writing";
inline constexpr const char* kOutputGroup = "Output";
inline constexpr const char* kReadingGroup = "Reading";

/// kInvalidArgument for the empty name, for "-", which many programs take for a standard `stream`
/// ("input" or "output"), and for a URL to write to.
[[nodiscard]] Result<void> check_file_name(const std::string& file, const char* stream);

/// Opens a checkpoint: a file, or a URL (see urls.h). If the program that its format belongs to
/// would run something of it (Note::Kind::kCode), says so on standard error, once for each file. It
/// is done here so that no command can forget it. A command with Code::kListed prints all notes
/// itself, and one with kSilent must print nothing. The further files of the checkpoint become
/// CommonOptions::kept.
[[nodiscard]] Result<CheckpointFile> open_file(const std::string& file,
                                               const CommonOptions& options);

/// All commands, in the order of the help. commands/NAME.cpp has add_NAME() of each, or a file of
/// commands that share their code: convert.cpp also of delta and flatten, fold.cpp also of rebase.
// clang-format off
#define ESPALIER_COMMANDS(X) \
  X(ls) \
  X(tree) \
  X(show) \
  X(stats) \
  X(doctor) \
  X(verify) \
  X(diff) \
  X(extract) \
  X(convert) \
  X(delta) \
  X(flatten) \
  X(merge) \
  X(map) \
  X(index) \
  X(needs) \
  X(log) \
  X(apply) \
  X(fold) \
  X(rebase) \
  X(prune) \
  X(view) \
  X(help) \
  X(completion) \
  X(man)
// clang-format on

#define ESPALIER_DECLARE(name) void add_##name(CLI::App& app, Action& action);
ESPALIER_COMMANDS(ESPALIER_DECLARE)
#undef ESPALIER_DECLARE

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_COMMAND_H_
