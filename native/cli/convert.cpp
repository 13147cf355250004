// espalier convert: writes the same state to another file, or in another format.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "command.h"
#include "progress.h"
#include "write_result.h"

#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/read/to_value.h"

namespace espalier::cli {
namespace {

constexpr const char* kTreeHint = "; --flat converts the tensors without the carried tree";

struct Options {
  CommonOptions common;
  TargetOptions write;
  std::string file;
  std::string target;
  bool flat = false;
};

// Reads every byte of the source and fails on the first damage, so damaged data is never converted.
Result<void> check_source(const CheckpointFile& file) {
  ProgressBar progress("checking");
  auto report = file.verify(progress.callback());
  if (!report) return propagate(report);
  if (report->error_count > 0) return tl::unexpected<Error>(std::move(report->errors.front()));
  return {};
}

struct Content {
  Value state;
  Value metadata;
  bool was_carried = false;
};

// Whether the target gets the tree that a safetensors file carries in its metadata. Another
// safetensors file keeps the carried tree in its metadata.
bool restores_tree(const CheckpointFile& file, FileFormat target, const Options& options) {
  return file.checkpoint().catalog().format() == FileFormat::kSafetensors &&
         target == FileFormat::kEspalier && !options.flat &&
         file.metadata().find(KeyView::of(kCarriedTreeKey));
}

Result<Content> read_content(const CheckpointFile& file, FileFormat target,
                             const Options& options) {
  auto state = file.load_lazily(file.state());
  if (!state) return propagate(state);
  Content content{std::move(*state), to_value(file.metadata())};
  if (!restores_tree(file, target, options)) return content;
  auto carried = restore_carried(content.state, content.metadata);
  if (!carried) {
    carried.error().message += kTreeHint;
    return propagate(carried);
  }
  if (*carried) content = {std::move((*carried)->state), std::move((*carried)->metadata), true};
  return content;
}

Outcome run(const Options& options, Output& out) {
  if (auto ok = check_target(options.target, options.write); !ok) return about(options.target, ok);
  auto format = target_format(options.target, options.write, std::nullopt);
  if (!format) return about(options.target, format);
  CommonOptions reading = options.common;
  auto file = open_file(options.file, reading);
  if (!file) return about(options.file, file);
  if (reading.nest && restores_tree(*file, *format, options)) {
    // A carried tree refers to the names as they are stored.
    reading.nest = false;
    file = open_file(options.file, reading);
    if (!file) return about(options.file, file);
  }
  if (auto ok = check_source(*file); !ok) return about(options.file, ok);
  auto content = read_content(*file, *format, options);
  if (!content) return about(options.file, content);
  auto written = write_file(out, {options.file, options.target}, *format, content->state,
                            std::move(content->metadata), options.write, options.common);
  if (!written && content->was_carried && written.error().error.code == ErrorCode::kInvalidTree) {
    // Only the writer finds equal elements of a set and paths that are too long.
    written.error().file = options.file;
    written.error().error.code = ErrorCode::kSafetensorsInvalid;
    written.error().error.message += kTreeHint;
  }
  return written;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "convert", "Check a whole checkpoint and write it to a new file, in any format");
  command->add_option("IN", options->file, "A checkpoint")->required();
  command->add_option("OUT", options->target, "The file to write; its extension selects the format")
      ->required();
  command->add_flag("--flat", options->flat,
                    "Take a safetensors file's tensors as they are, even if it carries a tree");
  add_target_options(*command, options->write);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "line about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier convert model.safetensors model.espalier --nest",
                          "espalier convert run.espalier small.espalier --compress"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
