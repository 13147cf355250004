// espalier extract: part of a checkpoint as a file of its own.

#include <memory>

#include "cli/opening/command.h"
#include "cli/opening/content.h"
#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/selection/missing_path.h"
#include "cli/selection/selection.h"
#include "cli/selection/slice_spec.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "cli/writing/cast.h"
#include "cli/writing/output_name.h"
#include "cli/writing/write_result.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/read/resolve.h"
#include "espalier/read/resolve_patterns.h"
#include "espalier/read/select.h"
#include "espalier/read/slice.h"
#include "espalier/read/to_value.h"
#include "files/open/lazy_tensors.h"

namespace espalier::cli {
namespace {

struct ExtractOptions {
  CommonOptions common;
  TargetOptions write;
  std::string file;
  std::optional<std::string> output;
  std::string target;  // of `output`, or the first pattern: see settle_target()
  std::vector<std::string> patterns;
  std::vector<std::string> excluded;
  std::string slice;
  std::string root;
  std::string cast;
};

// A slice of a tensor, read into memory; a slice of a placeholder has only a shape.
Result<Tensor> slice_of(const CheckpointFile& file, const TensorRef& ref, const SliceSpec& spec) {
  auto slices = spec.fit(ref.shape());
  if (!slices) return propagate(slices);
  Tensor tensor = to_tensor(ref);
  for (std::size_t i = 0; i < slices->size(); ++i) {
    tensor.shape[i] = resolve((*slices)[i], tensor.shape[i]).count;
  }
  if (ref.is_placeholder()) return tensor;
  auto view = file.slice(ref, *slices);
  if (!view) return propagate(view);
  const auto bytes = view->bytes();
  tensor.data = TensorData::kept(bytes, bytes.keeper());
  return tensor;
}

Result<Tensor> whole(const LazyTensors& tensors, const TensorRef& ref) {
  if (ref.is_placeholder()) return to_tensor(ref);
  auto data = tensors(ref);
  if (!data) return propagate(data);
  return to_tensor(ref, std::move(*data));
}

// Which nodes --exclude names, by number.
Result<std::vector<bool>> find_excluded(const CheckpointFile& file, const ExtractOptions& options) {
  std::vector<bool> excluded;
  if (options.excluded.empty()) return excluded;
  const auto nodes = select_nodes(file, options.excluded, true);
  if (!nodes) return propagate(nodes);
  for (const std::uint32_t node : *nodes) {
    if (node >= excluded.size()) excluded.resize(node + std::size_t{1});
    excluded[node] = true;
  }
  return excluded;
}

Result<Value> select_state(const CheckpointFile& file, const ExtractOptions& options,
                           const SliceSpec& slice, SaveFormat format, Cast& cast) {
  auto patterns = parse_patterns(options.patterns);
  if (!patterns) return propagate(patterns);
  resolve_patterns(*patterns, {file.state()});
  auto root = resolve_plainly(file.state(), options.root);
  if (!root) return tl::unexpected<Error>(explain_missing(std::move(root.error()), file.state()));
  const auto excluded = find_excluded(file, options);
  if (!excluded) return propagate(excluded);
  SelectOptions how;
  if (!excluded->empty()) {
    how.leave_out = [&](const NodeRef& node) {
      return node.number() < excluded->size() && (*excluded)[node.number()];
    };
  }
  // For a file of one tensor, values that are not selected must not count.
  how.keep_elements = !holds_one_tensor(format);
  const LazyTensors tensors(file, options.file);
  const auto make = [&](const TensorRef& ref) {
    auto tensor = options.slice.empty() ? whole(tensors, ref) : slice_of(file, ref, slice);
    if (tensor) tensor = cast.apply(std::move(*tensor));
    if (!tensor && tensor.error().path.empty()) tensor.error().path = tensor_path(ref);
    return tensor;
  };
  auto state = select(file.state(), *root, *patterns, make, how);
  if (!state) {
    return tl::unexpected<Error>(
        explain_unmatched(std::move(state.error()), options.patterns, {file.state()}));
  }
  if (auto ok = cast.check_used(); !ok) return propagate(ok);
  return state;
}

// Whether the user left OUT out, so that the first pattern stands in its place.
bool is_pattern(const ExtractOptions& options) {
  if (options.target.find_first_of("*?[{") != std::string::npos) return true;
  const auto file = open_file(options.file, options.common);
  return file && !options.target.empty() &&
         resolve_plainly(file->state(), options.target).has_value();
}

// The output and its format. Without -o it is the first pattern, as in an earlier version: told
// once the command line is known to be meant like that.
Result<SaveFormat> settle_target(ExtractOptions& options) {
  if (!options.output && options.patterns.empty()) {
    return fail(ErrorCode::kInvalidArgument, "OUT is missing: pass it after -o");
  }
  if (options.output) {
    options.target = *options.output;
  } else {
    options.target = std::move(options.patterns.front());
    options.patterns.erase(options.patterns.begin());
  }
  if (auto ok = check_target(options.target, options.write); !ok) return propagate(ok);
  auto format = target_format(options.target, options.write, Formats::kAll);
  if (options.output) return format;
  // --to takes any name for OUT, so it does not tell them apart.
  const bool is_named_as_file =
      options.write.format.empty() && find_named_format(options.target).has_value();
  if (!is_named_as_file && is_pattern(options)) {
    return fail(ErrorCode::kInvalidArgument,
                "OUT is missing: this is a pattern; pass the file to write after -o, as in "
                "`espalier extract FILE PATTERN -o OUT`");
  }
  if (format) {
    print_error(
        "extract: OUT before the patterns is of an earlier version, and will be a pattern in "
        "the next one; write -o OUT");
  }
  return format;
}

// The attributes of dicts, such as the _metadata of PyTorch's state dicts, stand in the metadata by
// the paths of the dicts. Those below the new root get their new paths, and the others are left
// out.
Result<void> move_attributes(Value& metadata, const CheckpointFile& file, const std::string& root) {
  constexpr std::string_view kName = "torch.attributes";
  const Value* const attributes = metadata.find(Key(kName));
  if (root.empty() || attributes == nullptr || attributes->kind() != Kind::kDict) return {};
  const auto keys = file.state().resolve(root);
  if (!keys) return propagate(keys);
  const std::string before = printed_path(file.state(), *keys);
  Value moved = Value::dict();
  for (std::size_t i = 0; i < attributes->keys().size(); ++i) {
    const KeyView key = attributes->keys()[i].view();
    if (key.is_int) continue;
    std::string_view path = key.text;
    if (!path.starts_with(before)) continue;
    path.remove_prefix(before.size());
    if (!path.empty() && path.front() != '/') continue;
    moved.add(Key(path.substr(path.empty() ? 0 : 1)), attributes->children()[i]);
  }
  const KeyPath place{Key(kName)};
  if (moved.children().empty()) return metadata.erase(place);
  return metadata.set(place, std::move(moved));
}

Outcome run_extract(ExtractOptions options, Output& out) {
  auto slice = SliceSpec::parse(options.slice);
  if (!slice) return about("--slice", slice);
  auto format = settle_target(options);
  if (!format) return about(options.target, format);
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  tell_losses(shown_name(options.file), file->checkpoint().catalog());
  Cast cast(options.cast);
  auto state = select_state(*file, options, *slice, *format, cast);
  if (!state) return about(options.file, state);
  Value metadata = to_value(file->metadata());
  forget_header(metadata);  // It describes the whole file.
  if (auto ok = move_attributes(metadata, *file, options.root); !ok) {
    return about(options.file, ok);
  }
  const auto written = write_file({options.file, options.target}, *format, *state,
                                  std::move(metadata), options.write, options.common);
  if (!written) return tl::unexpected<Failure>(written.error());
  if (written->stopped_by != 0) return ended_by(written->stopped_by);
  if (options.common.json) {
    JsonWriter json(out);
    json.begin_object();
    write_written_members(json, *written);
    cast.write_member(json);
    json.end_object();
    out.put('\n');
  } else if (!options.common.quiet) {
    print_written(out, *written);
    cast.print(out);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_extract(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExtractOptions>();
  CLI::App* command = app.add_subcommand("extract", "Write part of a checkpoint to a new file");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  add_pattern_arguments(*command, options->patterns);
  add_output_option(*command, options->output,
                    "The file to write; it ends in .espalier, .safetensors, .npy, .raw or .bin, or "
                    "--to selects the format");
  command
      ->add_option("--slice", options->slice,
                   "Only this part of each selected tensor, for example 0:4,:,::2; an index keeps "
                   "its axis")
      ->type_name("SPEC");
  command->add_option("--root", options->root, "The subtree that becomes the new file's root")
      ->type_name("PATH");
  // One pattern for each option: those after it are positional arguments.
  command
      ->add_option("--exclude", options->excluded,
                   "Leave out what this pattern selects; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  add_cast_option(*command, options->cast);
  add_target_options(*command, options->write, Formats::kAll);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier extract run.espalier 'model/**' -o model.espalier",
                          "espalier extract run.espalier --root model -o model.safetensors"});
  command->callback([options, &action] {
    action = [options](Output& out) { return run_extract(*options, out); };
  });
}

}  // namespace espalier::cli
