// espalier fold and espalier rebase: change which files a checkpoint needs, and not what it holds.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/opening/command.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/writing/bases.h"
#include "cli/writing/output_name.h"
#include "cli/writing/write_result.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/read/to_value.h"
#include "files/delta/find_references.h"
#include "files/delta/rewrite_references.h"

namespace espalier::cli {
namespace {

struct FoldOptions {
  CommonOptions common;
  TargetOptions write;
  std::vector<std::string> names;  // without -o, the last one is OUT
  std::optional<std::string> output;
  std::vector<std::string> onto;
};

// That every byte of the source is right: whoever trusts the exit code deletes it. False if that is
// unknown, because files are missing.
tl::expected<bool, Failure> check_whole(const OpenBase& source, const std::string& name) {
  const auto files = source.file.checkpoint().catalog().files();
  if (std::any_of(files.begin(), files.end(),
                  [](const FileEntry& each) { return each.problem.has_value(); })) {
    return false;
  }
  ProgressBar progress("checking");
  const auto report = source.file.verify({.progress = progress.callback()});
  if (!report) return tl::unexpected<Failure>({name, report.error()});
  if (report->error_count > 0) return tl::unexpected<Failure>({name, report->errors.front()});
  return true;
}

// Whether a file written with `references` needs one of `onto`, or what these need in its place.
bool is_based_on(const References& references, const std::vector<SaveBase>& onto,
                 const CheckpointFile& source) {
  const bool is_named =
      std::any_of(references.files.begin(), references.files.end(), [&](const ReferredFile& file) {
        return std::any_of(onto.begin(), onto.end(),
                           [&](const SaveBase& base) { return base.name == file.name; });
      });
  const auto files = source.checkpoint().catalog().files().subspan(1);
  return is_named ||
         !std::equal(files.begin(), files.end(), references.files.begin(), references.files.end(),
                     [](const FileEntry& a, const ReferredFile& b) { return a.name == b.name; });
}

Outcome run_fold(const FoldOptions& options, bool is_fold, Output& out) {
  std::vector<std::string> names = options.names;
  const auto output = take_output(names, options.output);
  if (!output) return fail_about({}, output.error());
  if (names.size() != 1) return refuse(names.back(), "one checkpoint is rewritten at a time");
  const std::string& name = names.front();
  const std::string& target = *output;
  if (auto ok = check_target(target, options.write); !ok) return about(target, ok);
  std::vector<OpenBase> files;
  for (const std::string& base : options.onto) {
    auto file = open_base(base, target, options.common);
    if (!file) return about(base, file);
    files.push_back(std::move(*file));
  }
  auto source = open_base(name, target, options.common);
  if (!source) return about(name, source);
  if (source->file.checkpoint().catalog().format() != kEspalierFormat) {
    return fail_about(name, {ErrorCode::kInvalidArgument,
                             Error::kNoOffset,
                             {},
                             "only Espalier files refer to others in this way"});
  }
  const auto checked = check_whole(*source, name);
  if (!checked) return tl::unexpected<Failure>(checked.error());
  auto state = state_to_rewrite(source->file);
  if (!state) return about(name, state);
  auto references = is_fold ? fold_references(source->as_base(), *state)
                            : rebase_references(source->as_base(), bases_of(files), *state);
  if (!references) return about(name, references);
  if (!is_fold && !is_based_on(*references, bases_of(files), source->file)) {
    return refuse("--onto",
                  "nothing that FILE needs is in these checkpoints, so it would depend on the same "
                  "files as before; give the base itself, or another copy of it");
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(name, target, ignored)) {
    return fail_about(target,
                      {ErrorCode::kInvalidArgument,
                       Error::kNoOffset,
                       {},
                       "OUT is FILE; write another file, and rename it once no checkpoint needs "
                       "FILE any more"});
  }
  // Nor may it replace what FILE needs: that would be lost.
  std::vector<SaveBase> bases = bases_of(files);
  bases.push_back(source->as_base());
  if (auto ok = check_is_no_base(target, bases); !ok) return about(target, ok);
  const auto written =
      write_file({name, target}, SaveFormat::kEspalier, *state, to_value(source->file.metadata()),
                 options.write, options.common, {.references = &*references});
  if (!written) return tl::unexpected<Failure>(written.error());
  auto outcome = report_with_needs(out, *written, options.common);
  if (!*checked && outcome && !options.common.json && !options.common.quiet) {
    out.write("not checked, because files that FILE needs are missing: verify OUT with its base\n");
  }
  return outcome;
}

void add_options(CLI::App& command, FoldOptions& options) {
  options.write.espalier_only = true;
  add_new_file_options(command, options.write);
  add_json_option(command, options.common);
  add_quiet_option(command, options.common, "lines about what was written");
  add_open_options(command, options.common);
}

}  // namespace

void add_fold(CLI::App& app, Action& action) {
  auto options = std::make_shared<FoldOptions>();
  CLI::App* command = app.add_subcommand(
      "fold",
      "Make one patch of several that lie one upon the other, so that files between can go");
  command
      ->add_option("FILE OUT", options->names,
                   "A checkpoint whose patches lie in several files, and the file to write, in the "
                   "same folder. What the patches are applied to is not read, and may be missing")
      ->type_name("")
      ->required();
  add_output_option(*command, options->output);
  add_options(*command, *options);
  set_examples(*command, {"espalier fold step-9.espalier folded-9.espalier"});
  command->callback([options, &action] {
    action = [options](Output& out) { return run_fold(*options, true, out); };
  });
}

void add_rebase(CLI::App& app, Action& action) {
  auto options = std::make_shared<FoldOptions>();
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "rebase",
      "Let a checkpoint depend on another copy of its base: compressed, renamed or flattened");
  command->add_option("FILE", *name, "A checkpoint that depends on others, which may be missing")
      ->required();
  command
      ->add_option(
          "--onto", options->onto,
          "A checkpoint in the folder of OUT that has the same tensors as the base, however "
          "they are stored and named: they are found by their hashes. May be repeated")
      ->type_name("BASE")
      ->required()
      ->allow_extra_args(false);
  add_output_option(*command, options->output)->required();
  add_options(*command, *options);
  set_examples(*command,
               {"espalier rebase step-9.espalier --onto base-small.espalier -o new.espalier"});
  command->callback([options, name, &action] {
    options->names = {*name};
    action = [options](Output& out) { return run_fold(*options, false, out); };
  });
}

}  // namespace espalier::cli
