// espalier apply: brings a checkpoint on the disk to the state of a later one, by its patches.

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "cli/writing/bases.h"
#include "cli/writing/write_result.h"
#include "espalier/base/escaped.h"
#include "espalier/codec/compression_level.h"
#include "espalier/format/format_info.h"
#include "espalier/read/to_value.h"
#include "files/delta/open_with_base.h"

namespace espalier::cli {
namespace {

struct ApplyOptions {
  CommonOptions common;
  TargetOptions write;
  std::string update;
  std::string target;
  bool read_others = false;
};

Outcome run_apply(const ApplyOptions& options, Output& out) {
  TargetOptions write = options.write;
  write.force = true;
  write.espalier_only = true;
  write.replaces_base = true;
  if (auto ok = check_target(options.target, write); !ok) return about(options.target, ok);
  auto base = open_file(options.target, options.common);
  if (!base) return about(options.target, base);
  if (base->checkpoint().catalog().format() != kEspalierFormat) {
    return refuse(options.target,
                  "only an Espalier file can be replaced by its later "
                  "state; `espalier convert UPDATE FILE --force` "
                  "writes other formats");
  }
  auto update = open_file(options.update, options.common);
  if (!update) return about(options.update, update);
  if (update->checkpoint().catalog().format() != kEspalierFormat) {
    return refuse(options.update,
                  "only Espalier files are updates; `espalier convert` "
                  "writes one");
  }
  std::error_code ignored;
  if (!is_url(options.update) &&
      std::filesystem::equivalent(options.update, options.target, ignored)) {
    return refuse(options.update, "a file cannot be applied to itself");
  }
  auto applied =
      open_with_base(*update, *base, options.read_others ? Unfound::kKeep : Unfound::kRefuse);
  if (!applied) {
    Error& error = applied.error();
    if (error.code == ErrorCode::kFileMissing) {
      error.message = "the update needs this file, because " + escaped(options.target) +
                      " does not hold the state that the update was made for; put it beside the "
                      "update, or apply the updates in between first";
    } else if (error.code == ErrorCode::kBaseMismatch) {
      error.message = escaped(options.target) +
                      " holds neither the state of the update nor one that it has patches for; "
                      "apply the updates in between first, or pass --read-others to read what "
                      "differs from the files that the update needs";
    }
    return about(options.update, applied);
  }
  auto contents = applied->contents();
  if (!contents) return about(options.update, contents);
  if (write.compress.empty()) {
    const auto before = base->contents();
    if (before && before->compression_level != kNoCompression) {
      write.compress = std::to_string(before->compression_level);
    }
  }
  const auto written =
      write_file({options.update, options.target}, SaveFormat::kEspalier, contents->state,
                 std::move(contents->metadata), write, options.common, {});
  if (!written) return tl::unexpected<Failure>(written.error());
  return report_with_needs(out, *written, options.common);
}

}  // namespace

void add_apply(CLI::App& app, Action& action) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* command = app.add_subcommand(
      "apply", "Bring a checkpoint to the state of a later one that was made against it");
  command
      ->add_option("UPDATE", options->update,
                   "A checkpoint (a file or a URL) that holds the differences to FILE, as "
                   "`espalier delta` writes it")
      ->required();
  command
      ->add_option("FILE", options->target,
                   "The checkpoint that UPDATE was made against, or a copy of it: compressed or "
                   "renamed, too. It is replaced by the state of UPDATE, completely or not at all")
      ->required();
  command->add_flag("--read-others", options->read_others,
                    "Where FILE holds no state that UPDATE was made for, read tensors from the "
                    "files that UPDATE needs");
  command
      ->add_flag("--compress", options->write.compress,
                 "Compress tensors, as convert does. Without this option, FILE stays as it is, "
                 "compressed or not; --compress=0 is none")
      ->type_name("")
      ->group(kWritingGroup);
  command->option_defaults()->group(kWritingGroup);
  command->add_flag("--no-metadata", options->write.no_metadata, "Leave the file's metadata out");
  command->add_flag("--no-sync", options->write.no_sync,
                    "Do not wait for the disk; a power failure may then lose the file");
  command->option_defaults()->group("Options");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines about what was written");
  add_open_options(*command, options->common);
  set_examples(*command, {"espalier apply step-2.delta.espalier served.espalier"});
  command->callback(
      [options, &action] { action = [options](Output& out) { return run_apply(*options, out); }; });
}

}  // namespace espalier::cli
