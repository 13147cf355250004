// espalier convert: writes the same states to other files, or in another format.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/opening/command.h"
#include "cli/opening/content.h"
#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/values.h"
#include "cli/writing/bases.h"
#include "cli/writing/output_name.h"
#include "cli/writing/targets.h"
#include "cli/writing/write_result.h"
#include "espalier/foreign/common/flatten.h"

namespace espalier::cli {
namespace {

struct ConvertOptions {
  CommonOptions common;
  TargetOptions write;
  BaseOptions bases;
  std::vector<std::string> names;  // without -o, the last one is OUT
  std::optional<std::string> output;
  bool flat = false;
};

// Only Espalier files get the tree that a safetensors file carries in its metadata. Another
// safetensors file keeps it there.
CarriedTree carried_tree(SaveFormat target, const ConvertOptions& options) {
  return target == SaveFormat::kEspalier && !options.flat ? CarriedTree::kRestore
                                                          : CarriedTree::kLeave;
}

tl::expected<Written, Failure> convert(const Route& route, SaveFormat format,
                                       const ConvertOptions& options) {
  auto content = read_content(route.source, options.common, carried_tree(format, options), true);
  if (!content) return tl::unexpected<Failure>(std::move(content.error()));
  tell_losses(shown_name(route.source), content->file.checkpoint().catalog());
  if (format == SaveFormat::kEspalier && !options.write.no_metadata) {
    if (auto ok = keep_foreign_header(*content); !ok) return about(route.source, ok);
  }
  std::vector<OpenBase> bases;
  for (const std::string& name : options.bases.names) {
    auto base = open_base(name, route.target, options.common);
    if (!base) return about(name, base);
    bases.push_back(std::move(*base));
  }
  auto written = write_file(route, format, content->state, std::move(content->metadata),
                            options.write, options.common, against(options.bases, bases));
  if (!written && content->was_carried && written.error().error.code == ErrorCode::kInvalidTree) {
    // Only the writer finds equal elements of a set and paths that are too long.
    written.error().file = route.source;
    written.error().error.code = ErrorCode::kSafetensorsInvalid;
    written.error().error.message += kTreeHint;
  }
  if (written) written->is_incomplete = lacks_elements(content->file.checkpoint());
  return written;
}

// Reports one conversion of several. A failure does not keep the others from being converted.
ExitCode report(Output& out, JsonWriter& json, const ConvertOptions& options, const Route& route,
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
  if (written) return exit_code(*written);
  print_error(describe(written.error()));
  return exit_code(written.error().error.code);
}

Outcome convert_several(const std::vector<Conversion>& conversions, const ConvertOptions& options,
                        Output& out) {
  JsonWriter json(out);
  if (options.common.json) begin_files(json);
  ExitCode worst = ExitCode::kOk;
  for (const auto& [route, format] : conversions) {
    const auto written = convert(route, format, options);
    if (written && written->stopped_by != 0) return ended_by(written->stopped_by);
    worst = std::max(worst, report(out, json, options, route, written));
  }
  if (options.common.json) end_files(json, out);
  return worst;
}

Outcome run_convert(const ConvertOptions& options, Output& out) {
  auto conversions = plan_conversions(options.names, options.output, options.write);
  if (!conversions) return tl::unexpected<Failure>(std::move(conversions.error()));
  for (const Conversion& each : *conversions) {
    if (options.bases.names.empty() || each.format == SaveFormat::kEspalier) continue;
    return fail_about("--base", {ErrorCode::kInvalidArgument,
                                 Error::kNoOffset,
                                 {},
                                 "only Espalier files can refer to others"});
  }
  if (conversions->size() > 1) return convert_several(*conversions, options, out);
  const auto& [route, format] = conversions->front();
  auto written = convert(route, format, options);
  if (!written) return tl::unexpected<Failure>(std::move(written.error()));
  if (!options.bases.names.empty()) {
    const std::string alone =
        fmt::format("written whole: less than {} % of it is taken from the base (see --most)\n",
                    100 - options.bases.most_percent);
    return report_with_needs(out, *written, options.common, alone);
  }
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
  return exit_code(*written);
}

void add_written_options(CLI::App& command, ConvertOptions& options) {
  add_new_file_options(command, options.write);
  add_compress_option(command, options.write);
  add_json_option(command, options.common);
  add_quiet_option(command, options.common, "lines about what was written");
  add_read_options(command, options.common);
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConvertOptions>();
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
  add_output_option(*command, options->output,
                    "The file or folder to write to; then all other names are inputs");
  command->add_flag("--flat", options->flat,
                    "Take a safetensors file's tensors as they are, even if it carries a tree");
  add_base_option(*command, options->bases);
  add_patch_options(*command, options->bases);
  for (const char* name : {"--only-references", "--most"}) {
    command->get_option(name)->needs(command->get_option("--base"));
  }
  add_target_options(*command, options->write, Formats::kAll);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier convert model.safetensors model.espalier --nest",
                          "espalier convert run.espalier small.espalier --compress",
                          "espalier convert step-2.pt step-2.espalier --base step-1.espalier",
                          "espalier convert model.pt model.safetensors --unrepresentable drop"});
  command->callback([options, &action] {
    action = [options](Output& out) { return run_convert(*options, out); };
  });
}

void add_delta(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConvertOptions>();
  auto base = std::make_shared<std::string>();
  auto source = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("delta", "Write a checkpoint as its differences to another one, its base");
  command->add_option("BASE", *base, "The checkpoint that OUT needs from then on, in its folder")
      ->required();
  command->add_option("NEW", *source, "The checkpoint to write (a file or a URL)")->required();
  add_output_option(*command, options->output,
                    "The file to write: it holds all of NEW for whoever has BASE")
      ->required();
  add_patch_options(*command, options->bases);
  add_written_options(*command, *options);
  set_examples(*command, {"espalier delta step-1.espalier step-2.espalier -o step-2.delta.espalier",
                          "espalier delta base.safetensors tuned.safetensors -o tuned.espalier"});
  command->callback([options, base, source, &action] {
    options->bases.names = {*base};
    options->names = {*source};
    options->write.format = "espalier";
    options->write.espalier_only = true;
    action = [options](Output& out) { return run_convert(*options, out); };
  });
}

void add_flatten(CLI::App& app, Action& action) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "flatten", "Write a checkpoint that lies in several files as one that needs no other");
  command
      ->add_option("IN OUT", options->names,
                   "The checkpoint (a file or a URL), and the file to write")
      ->type_name("")
      ->required();
  add_output_option(*command, options->output);
  add_written_options(*command, *options);
  set_examples(*command, {"espalier flatten step-9.espalier whole.espalier"});
  command->callback([options, &action] {
    options->write.format = "espalier";
    options->write.espalier_only = true;
    action = [options](Output& out) { return run_convert(*options, out); };
  });
}

}  // namespace espalier::cli
