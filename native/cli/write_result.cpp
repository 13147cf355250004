#include "write_result.h"

#include <filesystem>
#include <utility>

#include "json_writer.h"
#include "progress.h"
#include "text.h"

#include "espalier/native/save.h"

namespace espalier::cli {

void add_write_options(CLI::App& command, WriteOptions& options) {
  command.add_flag("-f,--force", options.force, "Replace OUT if it exists");
  command.add_flag("--no-sync", options.no_sync,
                   "Do not wait for the disk: a loss of power may then lose the file");
}

Result<void> check_target(const std::string& target, const WriteOptions& options) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(target, error);
  if (!options.force && std::filesystem::exists(status)) {
    return fail(ErrorCode::kInvalidArgument, "the file exists; --force replaces it");
  }
  return {};
}

Outcome write_file(Output& out, const Route& route, const Value& state, Value metadata,
                   const WriteOptions& options, const CommonOptions& common) {
  ProgressBar progress("writing");
  SaveOptions save_options;
  save_options.metadata = std::move(metadata);
  save_options.sync = !options.no_sync;
  save_options.threads = common.threads;
  save_options.progress = progress.callback();
  auto saved = save(route.target, state, save_options);
  if (!saved) {
    const bool from_source = exit_code(saved.error().code) == ExitCode::kBadInput &&
                             saved.error().code != ErrorCode::kNotARegularFile;
    return about(from_source ? route.source : route.target, saved);
  }
  return print_written(out, route, common);
}

Outcome print_written(Output& out, const Route& route, const CommonOptions& common) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(route.target, error);
  if (common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.member("file", route.source);
    json.member("written", route.target);
    json.member("bytes", error ? 0 : bytes);
    json.end_object();
    out.put('\n');
  } else if (!common.quiet) {
    out.print("{}: {} written\n", escaped(route.target), format_size(error ? 0 : bytes));
  }
  return ExitCode::kOk;
}

}  // namespace espalier::cli
