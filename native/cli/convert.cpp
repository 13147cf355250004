// espalier convert: the same state in another file, or in another format.

#include <filesystem>
#include <memory>

#include "command.h"
#include "progress.h"
#include "write_result.h"

#include "espalier/read/to_value.h"

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  WriteOptions write;
  std::string file;
  std::string target;
  std::string format;
};

// The format to write: as --to says, otherwise as the target's name ends.
Result<FileFormat> target_format(const Options& options) {
  const std::string extension = std::filesystem::path(options.target).extension().string();
  const std::string name =
      options.format.empty() ? extension.substr(!extension.empty()) : options.format;
  for (const FileFormat format : {FileFormat::kEspalier, FileFormat::kSafetensors}) {
    if (name == format_name(format)) return format;
  }
  return fail(ErrorCode::kInvalidArgument,
              "the name does not say which format to write; end it with .espalier or .safetensors, "
              "or give --to");
}

// Reads every byte of the source. The first damage found is the error: nothing damaged is
// converted.
Result<void> check_source(const CheckpointFile& file) {
  ProgressBar progress("checking");
  auto report = file.verify(progress.callback());
  if (!report) return propagate(report);
  if (report->error_count > 0) return tl::unexpected<Error>(std::move(report->errors.front()));
  return {};
}

Outcome write_espalier(Output& out, const CheckpointFile& file, const Options& options) {
  auto state = file.load_lazily(file.state());
  if (!state) return about(options.file, state);
  return write_file(out, {options.file, options.target}, *state, to_value(file.metadata()),
                    options.write, options.common);
}

// Here the writer of .safetensors comes in.
Outcome write_safetensors(Output&, const CheckpointFile&, const Options& options) {
  return fail_about(options.target, {ErrorCode::kInvalidArgument, Error::kNoOffset, "",
                                     "this build cannot write .safetensors yet"});
}

Outcome run(const Options& options, Output& out) {
  auto format = target_format(options);
  if (!format) return about(options.target, format);
  if (auto ok = check_target(options.target, options.write); !ok) return about(options.target, ok);
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  if (auto ok = check_source(*file); !ok) return about(options.file, ok);
  return *format == FileFormat::kEspalier ? write_espalier(out, *file, options)
                                          : write_safetensors(out, *file, options);
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("convert", "Check a whole checkpoint and write it anew, in any format");
  command->add_option("IN", options->file, "A checkpoint")->required();
  command->add_option("OUT", options->target, "The file to write; its ending says the format")
      ->required();
  command->add_option("--to", options->format, "The format to write: espalier, safetensors")
      ->check(CLI::IsMember({"espalier", "safetensors"}).description(""))
      ->type_name("FORMAT");
  add_write_options(*command, options->write);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "line about what was written");
  add_read_options(*command, options->common);
  command->footer("Example: espalier convert model.safetensors model.espalier");
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
