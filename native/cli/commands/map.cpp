// espalier map: turns checkpoints of one framework into those of another, by a key map.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/urls.h"
#include "cli/terminal/output.h"
#include "cli/terminal/text.h"
#include "cli/writing/map_text.h"
#include "cli/writing/output_name.h"
#include "cli/writing/write_result.h"
#include "espalier/base/escaped.h"
#include "espalier/file_sink.h"
#include "espalier/format/access.h"
#include "espalier/mapped_checkpoint.h"
#include "espalier/read/opening_machine.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

struct MapCommandOptions {
  CommonOptions common;
  TargetOptions write;
  bool old_reverse = false;
  std::vector<std::string> names;     // without -o, the last one of several is OUT
  std::vector<std::string> labelled;  // "lora=FILE"
  std::optional<std::string> output;
  std::optional<std::string> unread;  // what --plan and --explain took from the names for OUT
  MapOptions map;
  bool list = false;
  bool partial = false;
  std::string rest;
  std::string like;
  bool plan = false;
  std::string explain;
  std::string ledger;
  std::string memory = "256M";

  bool writes_nothing() const { return plan || !explain.empty(); }
};

tl::expected<std::vector<MapInput>, Failure> open_inputs(const MapCommandOptions& options) {
  std::vector<MapInput> inputs;
  for (const std::string& name : options.names) {
    auto file = open_file(name, options.common);
    if (!file) return about(name, file);
    inputs.push_back({std::move(*file), {}, name});
  }
  for (const std::string& text : options.labelled) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0) {
      return refuse("--in", escaped(text) +
                                " is no label and its file, such as "
                                "lora=adapter.safetensors");
    }
    const std::string name = text.substr(at + 1);
    auto file = open_file(name, options.common);
    if (!file) return about(name, file);
    inputs.push_back({std::move(*file), text.substr(0, at), name});
  }
  if (inputs.empty()) return refuse("", "no checkpoint to read is given");
  return inputs;
}

// Takes the name of the output from the inputs. If nothing is written, the user must hear of it:
// that name may be a shard that was meant to be read.
Result<void> settle_names(MapCommandOptions& options) {
  if (options.output) return {};
  if (options.writes_nothing()) {
    // Names mean what they mean in a run, so that the plan is that of the run; but a single one, of
    // which there is no run, is an input, and a URL is never written.
    const bool has_output = options.names.size() > (options.labelled.empty() ? 1U : 0U) &&
                            !is_url(options.names.back());
    if (!has_output) return {};
    options.unread = options.names.back();
  }
  auto output = take_output(options.names, {}, options.labelled.empty() ? 1 : 0);
  if (!output) return propagate(output);
  options.output = std::move(*output);
  return {};
}

// Whether the inputs are those of the map's other side.
bool fits_reversed(const MapCommandOptions& options, MappedOptions mapped_options,
                   const Error& error) {
  const bool lacks_names =
      error.code == ErrorCode::kMapUnmatched || error.code == ErrorCode::kMapIncomplete;
  if (options.map.reverse || !lacks_names) return false;
  mapped_options.lift.plan.reverse = true;
  auto inputs = open_inputs(options);
  return inputs && map_through(options.map, std::move(*inputs), mapped_options);
}

// What is read beside checkpoints is no result's to replace.
void keep_what_is_read(const MapCommandOptions& options) {
  KeptFiles& kept = *options.common.kept;
  for (const std::string& map : options.map.names) {
    if (is_map_file(map)) kept.add(map, "--map");
  }
  for (const std::string& config : options.map.configs) kept.add(config, "--config");
  if (!options.map.param_order.empty()) kept.add(options.map.param_order, "--param-order");
  if (!options.like.empty()) kept.add(options.like, "--like");
}

// That the ledger takes the place of nothing that is read, and of none of the checkpoints.
tl::expected<void, Failure> check_ledger(const MapCommandOptions& options,
                                         const std::vector<std::string>& checkpoints) {
  if (options.ledger.empty()) return {};
  for (const std::string& checkpoint : checkpoints) {
    if (is_same_file(checkpoint, options.ledger)) {
      return refuse(options.ledger,
                    "the ledger would take the place of a checkpoint; give it a "
                    "name of its own");
    }
  }
  if (auto ok = check_target(options.ledger, options.write); !ok) return about(options.ledger, ok);
  return check_not_needed(options.ledger, options.write, options.common);
}

// The checkpoints that the command line names.
std::vector<std::string> named_checkpoints(const MapCommandOptions& options) {
  std::vector<std::string> named = options.names;
  for (const std::string& text : options.labelled) {
    named.push_back(text.substr(std::min(text.find('=') + 1, text.size())));
  }
  if (options.output) named.push_back(*options.output);
  return named;
}

// One file for a state, or a folder with one for each label.
struct Planned {
  Route route;
  SaveFormat format;
  const MappedCheckpoint::Output* output;
};

tl::expected<std::vector<Planned>, Failure> plan_files(
    const std::vector<MappedCheckpoint::Output>& outputs, const MapCommandOptions& options) {
  std::vector<Planned> files;
  const std::string source =
      options.names.size() == 1 && options.labelled.empty() ? options.names.front() : std::string();
  const bool is_folder = outputs.size() > 1 || !outputs.front().label.empty();
  if (is_folder && !fs::is_directory(*options.output)) {
    return refuse(*options.output, "the map makes a file for each label, so this must be a folder");
  }
  for (const auto& output : outputs) {
    std::string target = *options.output;
    TargetOptions write = options.write;
    if (is_folder) {
      if (write.format.empty()) write.format = "espalier";
      std::string name = output.label.empty() ? "model" : output.label;
      name.append(".").append(write.format);
      // A label may come from a map of a stranger.
      if (!is_sibling_name(name) || name.starts_with('.')) {
        return refuse(target, "the label " + escaped(output.label) + " is no file name");
      }
      target = (fs::path(target) / name).string();
      const bool is_twice = std::any_of(files.begin(), files.end(), [&](const Planned& file) {
        return is_same_file(file.route.target, target);
      });
      if (is_twice) {
        return refuse(target,
                      "two labels would make this file; another label than model is "
                      "needed beside names without one");
      }
    }
    if (auto ok = check_target(target, write); !ok) return about(target, ok);
    auto format = target_format(target, write, Formats::kTrees);
    if (!format) return about(target, format);
    if (auto ok = check_not_needed(target, write, options.common); !ok) {
      return tl::unexpected(ok.error());
    }
    files.push_back({{source, target}, *format, &output});
  }
  return files;
}

// The name of the input that an error is about, if it says so.
Failure failure_of(const MapCommandOptions& options, Error error) {
  std::string file = std::exchange(error.file, {});
  if (file.empty() && options.names.size() == 1 && options.labelled.empty()) {
    file = options.names.front();
  }
  return {file, std::move(error)};
}

Outcome write_files(const std::vector<MapStage>& stages, const MapCommandOptions& options,
                    Output& out) {
  const MappedCheckpoint& mapped = stages.back().mapped;
  auto outputs = mapped.outputs();
  if (!outputs) return tl::unexpected(failure_of(options, outputs.error()));
  auto files = plan_files(*outputs, options);
  if (!files) return tl::unexpected(files.error());
  std::vector<std::string> targets;
  for (const Planned& file : *files) targets.push_back(file.route.target);
  if (auto ok = check_ledger(options, targets); !ok) return tl::unexpected(ok.error());
  for (const MapStage& stage : stages) {
    auto ok = stage.mapped.check();
    if (!ok) return tl::unexpected(failure_of(options, ok.error()));
  }
  TargetOptions write = options.write;
  const auto& inputs = stages.front().mapped.inputs();
  if (write.compress.empty() && inputs.size() == 1 &&
      has_compressed(inputs.front().file.checkpoint().catalog().tables())) {
    write.compress = "true";
  }
  auto metadata = mapped.metadata();
  if (!metadata) return tl::unexpected(failure_of(options, metadata.error()));
  std::optional<FileSink> ledger;
  if (!options.ledger.empty()) {
    // Before anything is written: its folder may be missing.
    auto sink = FileSink::create(options.ledger,
                                 {.sync = !options.write.no_sync, .replace = options.write.force});
    if (!sink) return about(options.ledger, sink);
    ledger.emplace(std::move(*sink));
  }
  std::vector<Written> written;
  for (const Planned& file : *files) {
    TargetOptions own = write;
    if (file.format != SaveFormat::kEspalier) own.compress = options.write.compress;
    auto one =
        write_file(file.route, file.format, file.output->state, *metadata, own, options.common);
    if (!one) return tl::unexpected(one.error());
    if (one->stopped_by != 0) return ended_by(one->stopped_by);
    written.push_back(std::move(*one));
  }
  if (ledger) {
    if (auto ok = write_ledger(*ledger, stages); !ok) return about(options.ledger, ok);
  }
  if (options.common.json) {
    print_map_json(out, stages.back(), options.map.reverse, written, {});
  } else if (!options.common.quiet) {
    for (const Written& each : written) print_written(out, each);
    print_map_summary(out, mapped);
  }
  return ExitCode::kOk;
}

Outcome run_map(MapCommandOptions options, Output& out) {
  if (options.list) {
    print_known_maps(out, options.common.json);
    return ExitCode::kOk;
  }
  if (options.old_reverse) {
    options.map.reverse = true;
    print_error(
        "map: --reverse is of an earlier version, and goes with the next one; write "
        "--map-reverse");
  }
  if (options.map.names.empty()) {
    return refuse("",
                  "no map is given; pass --map NAME or --map FILE.json, or see "
                  "`espalier map --list`");
  }
  if (auto ok = settle_names(options); !ok) return about(std::string(), ok);
  keep_what_is_read(options);
  if (auto ok = check_ledger(options, named_checkpoints(options)); !ok) {
    return tl::unexpected(ok.error());
  }
  MappedOptions mapped_options;
  auto lift = lift_options(options.map);
  if (!lift) return tl::unexpected(lift.error());
  mapped_options.lift = std::move(*lift);
  mapped_options.lift.plan.partial = options.partial;
  if (!options.rest.empty()) {
    mapped_options.lift.plan.rest = options.rest == "keep"   ? MapRest::kKeep
                                    : options.rest == "drop" ? MapRest::kDrop
                                                             : MapRest::kError;
  }
  auto memory = parse_size(options.memory);
  if (!memory) return about("--memory", memory);
  mapped_options.targets.memory = *memory;
  mapped_options.targets.threads = options.common.threads;
  if (!options.like.empty()) {
    auto like = open_file(options.like, options.common);
    if (!like) return about(options.like, like);
    mapped_options.like = std::move(*like);
  }
  auto inputs = open_inputs(options);
  if (!inputs) return tl::unexpected(inputs.error());
  auto stages = map_through(options.map, std::move(*inputs), mapped_options);
  if (!stages && fits_reversed(options, mapped_options, stages.error().error)) {
    stages.error().error.message += "; from right to left the map fits: --map-reverse";
  }
  if (!stages && options.unread) {
    stages.error().error.message += "; " + escaped(*options.unread) +
                                    " was taken for OUT and not read: with -o OUT, all names are "
                                    "inputs";
  }
  if (!stages) {
    return stages.error().file.empty() ? tl::unexpected(failure_of(options, stages.error().error))
                                       : tl::unexpected(stages.error());
  }
  if (!options.explain.empty()) {
    auto ok = print_explanation(out, stages->back(), options.explain, options.unread,
                                options.common.json);
    if (!ok) return about("--explain", ok);
    return ExitCode::kOk;
  }
  if (options.plan) {
    if (options.common.json) {
      print_map_json(out, stages->back(), options.map.reverse, {}, options.unread);
    } else {
      for (const MapStage& stage : *stages) print_plan(out, stage, options.map.reverse, *memory);
      print_unread(out, options.unread);
    }
    return ExitCode::kOk;
  }
  return write_files(*stages, options, out);
}

}  // namespace

void add_map(CLI::App& app, Action& action) {
  auto options = std::make_shared<MapCommandOptions>();
  CLI::App* command =
      app.add_subcommand("map", "Turn a checkpoint of one framework into another's, by a key map");
  command
      ->add_option("IN... OUT", options->names,
                   "Checkpoints (files, folders or URLs), and the file to write: it ends in "
                   ".espalier or .safetensors, or --to selects the format")
      ->type_name("");
  add_output_option(*command, options->output,
                    "The file to write; then all other names are inputs. A folder, if the map "
                    "writes labelled names: it gets a file for each label");
  add_map_options(*command, options->map, "The key map");
  // Of an earlier version; in other commands it is an order.
  command->add_flag("--reverse", options->old_reverse)->group("");
  command->option_defaults()->group("Options");
  command->add_flag("--list", options->list, "Print the maps that come with espalier, and no more");
  command->add_flag("--partial", options->partial,
                    "Leave out the rules that go the other way only");
  command
      ->add_option("--rest", options->rest,
                   "What becomes of tensors that no rule takes, in place of what the map says")
      ->check(CLI::IsMember({"error", "keep", "drop"}).description(""))
      ->type_name("error|keep|drop");
  command
      ->add_option("--in", options->labelled,
                   "A further input, whose names the map writes as LABEL::NAME")
      ->type_name("LABEL=FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--like", options->like,
                   "A checkpoint with the names, shapes, dtypes and containers that are to be "
                   "made; its tensors may be placeholders")
      ->type_name("FILE");
  command
      ->add_option("--memory", options->memory,
                   "Memory for tensors that are put together, such as 64M or 1G")
      ->type_name("SIZE")
      ->capture_default_str();
  command->option_defaults()->group(kOutputGroup);
  command->add_flag("--plan", options->plan,
                    "Prove the map on the names and shapes, print what it would do, and write "
                    "nothing. The last of several names is OUT here, too, and is not read");
  command
      ->add_option("--explain", options->explain,
                   "Print what one tensor of the result is made of, and write nothing")
      ->type_name("NAME");
  command
      ->add_option("--ledger", options->ledger,
                   "Write a line of JSON for each tensor: what it was made of, and by which rule")
      ->type_name("FILE");
  command->option_defaults()->group("Options");
  add_target_options(*command, options->write, Formats::kTrees);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_read_options(*command, options->common);
  set_examples(
      *command,
      {"espalier map --list", "espalier map model.safetensors --map llama-torchtune --plan",
       "espalier map pytorch_model.bin meta.espalier --map llama-meta --map-reverse --config "
       "config.json",
       "espalier map base.safetensors --in lora=adapter.safetensors merged.safetensors "
       "--map lora-merge --set alpha=16"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_map(*options, out); }; });
}

}  // namespace espalier::cli
