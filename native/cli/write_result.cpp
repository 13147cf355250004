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

SaveOptions save_options(Value metadata, const WriteOptions& options, const CommonOptions& common,
                         Progress progress) {
  return {.metadata = std::move(metadata),
          .sync = !options.no_sync,
          .threads = common.threads,
          .progress = std::move(progress)};
}

Failure save_failure(const Route& route, Error error) {
  const bool from_source =
      exit_code(error.code) == ExitCode::kBadInput && error.code != ErrorCode::kNotARegularFile;
  return {from_source ? route.source : route.target, std::move(error)};
}

Outcome write_file(Output& out, const Route& route, const Value& state, Value metadata,
                   const WriteOptions& options, const CommonOptions& common) {
  {
    ProgressBar progress("writing");
    auto saved = save(route.target, state,
                      save_options(std::move(metadata), options, common, progress.callback()));
    if (!saved) return tl::unexpected<Failure>(save_failure(route, std::move(saved.error())));
  }
  return print_written(out, route, common);
}

Outcome print_written(Output& out, const Route& route, const CommonOptions& common,
                      const Losses& dropped) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(route.target, error);
  if (common.json) {
    JsonWriter json(out);
    json.begin_object();
    json.member("file", route.source);
    json.member("written", route.target);
    json.member("bytes", error ? 0 : bytes);
    json.member("left_out", dropped.count());
    json.end_object();
    out.put('\n');
  } else if (!common.quiet) {
    out.print("{}: {} written\n", escaped(route.target), format_size(error ? 0 : bytes));
    if (!dropped.empty()) out.print("left out: {}\n", escaped(dropped.to_string()));
  }
  return ExitCode::kOk;
}

}  // namespace espalier::cli
