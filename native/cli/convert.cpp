// espalier convert: writes the same states to other files, or in another format.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "content.h"
#include "json_writer.h"
#include "notes.h"
#include "targets.h"
#include "urls.h"
#include "values.h"
#include "write_result.h"

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  TargetOptions write;
  std::vector<std::string> names;  // without -o, the last one is OUT
  std::optional<std::string> output;
  bool flat = false;
};

// Only Espalier files get the tree that a safetensors file carries in its metadata. Another
// safetensors file keeps it there.
CarriedTree carried_tree(SaveFormat target, const Options& options) {
  return target == SaveFormat::kEspalier && !options.flat ? CarriedTree::kRestore
                                                          : CarriedTree::kLeave;
}

tl::expected<Written, Failure> convert(const Route& route, SaveFormat format,
                                       const Options& options) {
  auto content = read_content(route.source, options.common, carried_tree(format, options), true);
  if (!content) return tl::unexpected<Failure>(std::move(content.error()));
  tell_losses(route.source, content->file.checkpoint().catalog());
  if (format == SaveFormat::kEspalier && !options.write.no_metadata) {
    if (auto ok = keep_foreign_header(*content); !ok) return about(route.source, ok);
  }
  auto written = write_file(route, format, content->state, std::move(content->metadata),
                            options.write, options.common);
  if (!written && content->was_carried && written.error().error.code == ErrorCode::kInvalidTree) {
    // Only the writer finds equal elements of a set and paths that are too long.
    written.error().file = route.source;
    written.error().error.code = ErrorCode::kSafetensorsInvalid;
    written.error().error.message += kTreeHint;
  }
  return written;
}

// Reports one conversion of several. A failure does not keep the others from being converted.
ExitCode report(Output& out, JsonWriter& json, const Options& options, const Route& route,
                const tl::expected<Written, Failure>& written) {
  if (options.common.json) {
    json.begin_object();
    if (written) {
      write_written_members(json, *written);
    } else {
      json.member("file", shown_name(route.source));
      json.key("failure");
      json.begin_object();
      write_error_members(json, written.error().error);
      json.end_object();
    }
    json.end_object();
  } else if (written && !options.common.quiet) {
    print_written(out, *written);
  }
  if (written) return ExitCode::kOk;
  print_error(describe(written.error()));
  return exit_code(written.error().error.code);
}

Outcome convert_several(const std::vector<Conversion>& conversions, const Options& options,
                        Output& out) {
  JsonWriter json(out);
  if (options.common.json) {
    json.begin_object();
    json.key("files");
    json.begin_array();
  }
  ExitCode worst = ExitCode::kOk;
  for (const auto& [route, format] : conversions) {
    const auto written = convert(route, format, options);
    if (written && written->stopped_by != 0) return ended_by(written->stopped_by);
    worst = std::max(worst, report(out, json, options, route, written));
  }
  if (options.common.json) {
    json.end_array();
    json.end_object();
    out.put('\n');
  }
  return worst;
}

Outcome run(const Options& options, Output& out) {
  auto conversions = plan_conversions(options.names, options.output, options.write);
  if (!conversions) return tl::unexpected<Failure>(std::move(conversions.error()));
  if (conversions->size() > 1) return convert_several(*conversions, options, out);
  const auto& [route, format] = conversions->front();
  auto written = convert(route, format, options);
  if (!written) return tl::unexpected<Failure>(std::move(written.error()));
  if (written->stopped_by != 0) return ended_by(written->stopped_by);
  if (options.common.json) {
    JsonWriter json(out);
    json.begin_object();
    write_written_members(json, *written);
    json.end_object();
    out.put('\n');
  } else if (!options.common.quiet) {
    print_written(out, *written);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "convert", "Check a whole checkpoint and write it to a new file, in any format");
  command
      ->add_option("IN... OUT", options->names,
                   "A checkpoint (a file or a URL), and the file to write: it ends in .espalier, "
                   ".safetensors, .npy, "
                   ".raw or .bin, or --to selects the format. Or checkpoints, and a folder that "
                   "gets a file for each")
      ->type_name("")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "The file or folder to write to; then all other names are inputs")
      ->type_name("OUT");
  command->add_flag("--flat", options->flat,
                    "Take a safetensors file's tensors as they are, even if it carries a tree");
  add_target_options(*command, options->write, Formats::kAll);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier convert model.safetensors model.espalier --nest",
                          "espalier convert run.espalier small.espalier --compress"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
