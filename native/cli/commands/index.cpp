// espalier index: hashes and a tree for the files of a checkpoint, without copying them.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/opening/command.h"
#include "cli/writing/bases.h"
#include "cli/writing/output_name.h"
#include "cli/writing/write_result.h"
#include "espalier/read/to_value.h"

namespace espalier::cli {
namespace {

struct IndexOptions {
  CommonOptions common;
  TargetOptions write;
  std::vector<std::string> files;
  std::optional<std::string> output;
};

// All tensors as they lie in the mapping: they are hashed once, and compared with themselves.
Result<Value> load_all(const CheckpointFile& file) {
  return file.load(file.state(), {.check = Check::kNothing});
}

// One dict of all dicts, such as the files of a sharded model without an index.
tl::expected<Value, Failure> join(const std::vector<OpenBase>& bases,
                                  const std::vector<std::string>& names) {
  Value joined = Value::dict();
  std::set<Key> seen;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    auto state = load_all(bases[i].file);
    if (!state) return about(names[i], state);
    if (bases.size() == 1) return std::move(*state);
    if (state->kind() != Kind::kDict) {
      return refuse(names[i],
                    "several files are joined key by key, and the root of this one "
                    "is no dict; index it by itself");
    }
    for (std::size_t k = 0; k < state->keys().size(); ++k) {
      const Key& key = state->keys()[k];
      if (!seen.insert(key).second) {
        std::string path;
        append_path(path, key.view(), DigitMark::kNever);
        return fail_about(names[i], {ErrorCode::kInvalidArgument, Error::kNoOffset, std::move(path),
                                     "a file before this one has the same key"});
      }
      joined.add(key, std::move(state->children()[k]));
    }
  }
  return joined;
}

Value join_metadata(const std::vector<OpenBase>& bases) {
  if (bases.size() == 1) return to_value(bases.front().file.metadata());
  Value joined = Value::dict();
  for (const OpenBase& base : bases) {
    Value metadata = to_value(base.file.metadata());
    if (!metadata.children().empty()) joined.add(Key(base.name), std::move(metadata));
  }
  return joined;
}

Outcome run_index(const IndexOptions& options, Output& out) {
  std::vector<std::string> names = options.files;
  const auto output = take_output(names, options.output);
  if (!output) return fail_about({}, output.error());
  const std::string& target = *output;
  if (auto ok = check_target(target, options.write); !ok) return about(target, ok);
  std::vector<OpenBase> bases;
  for (const std::string& name : names) {
    auto base = open_base(name, target, options.common);
    if (!base) return about(name, base);
    bases.push_back(std::move(*base));
  }
  auto state = join(bases, names);
  if (!state) return tl::unexpected<Failure>(std::move(state.error()));
  const auto written =
      write_file({names.size() == 1 ? names.front() : std::string(), target}, SaveFormat::kEspalier,
                 *state, join_metadata(bases), options.write, options.common, {bases_of(bases)});
  if (!written) return tl::unexpected<Failure>(written.error());
  return report_with_needs(out, *written, options.common);
}

}  // namespace

void add_index(CLI::App& app, Action& action) {
  auto options = std::make_shared<IndexOptions>();
  CLI::App* command = app.add_subcommand(
      "index", "Give files a tree with hashes, in a small file beside them that copies nothing");
  command
      ->add_option("FILE... OUT", options->files,
                   "The files of a checkpoint, or the one that describes them, and the file to "
                   "write, in the same folder. Several files are joined key by key")
      ->type_name("")
      ->required();
  add_output_option(*command, options->output,
                    "The file to write; then all other names are files of the checkpoint");
  options->write.espalier_only = true;
  add_new_file_options(*command, options->write);
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_read_options(*command, options->common);
  set_examples(*command, {"espalier index model.safetensors.index.json model.espalier --nest",
                          "espalier index model-*.safetensors -o model.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_index(*options, out); }; });
}

}  // namespace espalier::cli
