// espalier extract: part of a checkpoint as a file of its own.

#include <memory>

#include "command.h"
#include "selection.h"
#include "slice_spec.h"
#include "write_result.h"

#include "espalier/read/resolve_patterns.h"
#include "espalier/read/select.h"
#include "espalier/read/to_value.h"

namespace espalier::cli {
namespace {

struct Options {
  CommonOptions common;
  TargetOptions write;
  std::string file;
  std::string target;
  std::vector<std::string> patterns;
  std::string slice;
  std::string root;
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
  tensor.data = TensorData::kept(view->bytes, view->keeper);
  return tensor;
}

Result<Tensor> whole(const CheckpointFile& file, const TensorRef& ref) {
  if (ref.is_placeholder()) return to_tensor(ref);
  auto data = file.data_lazily(ref);
  if (!data) return propagate(data);
  return to_tensor(ref, std::move(*data));
}

Result<Value> select_state(const CheckpointFile& file, const Options& options,
                           const SliceSpec& slice) {
  auto patterns = parse_patterns(options.patterns);
  if (!patterns) return propagate(patterns);
  resolve_patterns(*patterns, {file.state()});
  auto root = file.state().resolve(options.root);
  if (!root) return propagate(root);
  return select(file.state(), *root, *patterns, [&](const TensorRef& ref) {
    auto tensor = options.slice.empty() ? whole(file, ref) : slice_of(file, ref, slice);
    if (!tensor && tensor.error().path.empty()) tensor.error().path = tensor_path(ref);
    return tensor;
  });
}

Outcome run(const Options& options, Output& out) {
  auto slice = SliceSpec::parse(options.slice);
  if (!slice) return about("--slice", slice);
  if (auto ok = check_target(options.target, options.write); !ok) return about(options.target, ok);
  auto format = target_format(options.target, options.write, FileFormat::kEspalier);
  if (!format) return about(options.target, format);
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  auto state = select_state(*file, options, *slice);
  if (!state) {
    return fail_about(options.file,
                      explain_unmatched(state.error(), options.patterns, {file->state()}));
  }
  return write_file(out, {options.file, options.target}, *format, *state,
                    to_value(file->metadata()), options.write, options.common);
}

}  // namespace

void add_extract(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("extract", "Write part of a checkpoint to a new file");
  command->add_option("FILE", options->file, "A checkpoint")->required();
  command
      ->add_option("OUT", options->target,
                   "The file to write; a name that ends in .safetensors selects that format")
      ->required();
  add_pattern_arguments(*command, options->patterns);
  command
      ->add_option("--slice", options->slice,
                   "Only this part of each selected tensor, for example 0:4,:,::2; an index keeps "
                   "its axis")
      ->type_name("SPEC");
  command->add_option("--root", options->root, "The subtree that becomes the new file's root")
      ->type_name("PATH");
  add_target_options(*command, options->write);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "line about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier extract run.espalier model.espalier 'model/**'",
                          "espalier extract run.espalier model.safetensors --root model"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run(*options, out); }; });
}

}  // namespace espalier::cli
