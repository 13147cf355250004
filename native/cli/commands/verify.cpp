// espalier verify: checks every byte of files against their hashes.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/opening/command.h"
#include "cli/opening/damage.h"
#include "cli/opening/notes.h"
#include "cli/opening/urls.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> files;
  bool is_local = false;
};

// The result for one file: a report, or the error that prevented reading it.
struct Verified {
  std::string file;
  std::uint32_t tensors = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t tensor_bytes = 0;        // of all files
  std::optional<CheckpointFile> opened;  // empty if that failed
  Result<VerifyReport> report;

  void fail(Error error) {
    // The line, or the object, names it already.
    if (error.file == file) error.file.clear();
    report = tl::unexpected<Error>(std::move(error));
  }

  ExitCode exit_code() const {
    if (!report) return cli::exit_code(report.error().code);
    switch (report->verdict()) {
      case VerifyVerdict::kOk:
      case VerifyVerdict::kStructureOnly:
        return ExitCode::kOk;
      case VerifyVerdict::kIncomplete:
        return ExitCode::kIncomplete;
      case VerifyVerdict::kDamaged:
        break;
    }
    return ExitCode::kCheckFailed;
  }
};

Verified verify(const std::string& name, const CommonOptions& common, FileScope scope) {
  Verified verified;
  verified.file = name;
  auto file = open_file(name, common);
  if (!file) {
    verified.fail(std::move(file.error()));
    return verified;
  }
  verified.tensors = file->checkpoint().tensor_count();
  verified.file_bytes = file->source().size();
  for (std::uint32_t i = 0; i < verified.tensors; ++i) {
    const TensorRef tensor = file->checkpoint().tensor(i);
    if (!tensor.is_placeholder()) verified.tensor_bytes += tensor.bytes();
  }
  ProgressBar progress("checking");
  auto report = file->verify({.progress = progress.callback()}, scope);
  if (report) {
    verified.report = std::move(report);
  } else {
    verified.fail(std::move(report.error()));
  }
  verified.opened = std::move(*file);
  return verified;
}

void print_text(Output& out, const Verified& verified, bool quiet) {
  if (!verified.report) return;  // The error is on standard error.
  const VerifyReport& report = *verified.report;
  const std::string name = escaped(shown_name(verified.file));
  if (report.error_count == 0) {
    if (quiet) return;
    const std::string tensors = counted(verified.tensors, "tensor");
    const auto files = verified.opened->checkpoint().catalog().files().subspan(1);
    const bool is_folder = std::any_of(files.begin(), files.end(),
                                       [](const FileEntry& each) { return each.maker == nullptr; });
    const std::string size =
        is_folder && !report.has_hashes
            ? format_size(report.checksums > 0 ? report.bytes : verified.tensor_bytes) +
                  " of tensors"
            : format_size(verified.file_bytes);
    if (report.has_hashes) {
      out.print("{}: ok ({}, {}, {}){}\n", name, tensors, counted(report.chunks, "chunk"), size,
                report.unchecked == 0 ? std::string()
                                      : "; " + format_size(report.unchecked) +
                                            " are patches of other files, and were not checked");
    } else if (report.checksums > 0) {
      out.print("{}: ok ({}, {}, {}){}\n", name, tensors, counted(report.checksums, "checksum"),
                size,
                report.unchecked == 0 ? std::string()
                                      : "; " + counted(report.unchecked, "byte") +
                                            " of tensors have none, and were not checked");
    } else {
      out.print(
          "{}: structure ok ({}, {}); this file has no hashes and no checksums, so the "
          "tensors' bytes were not checked\n",
          name, tensors, size);
    }
    return;
  }
  print_damage(out, verified.file, report);
}

void write_json(JsonWriter& json, const Verified& verified) {
  json.begin_object();
  json.member("file", shown_name(verified.file));
  json.member("ok", verified.exit_code() == ExitCode::kOk);
  if (!verified.report) {
    json.member("verdict", "unreadable");
    json.key("failure");
    json.begin_object();
    write_error_members(json, verified.report.error());
    json.end_object();
    json.end_object();
    return;
  }
  const VerifyReport& report = *verified.report;
  json.member("hashes", report.has_hashes);
  json.member("tensors", verified.tensors);
  json.member("chunks", report.chunks);
  json.member("checksums", report.checksums);
  json.member("bytes_checked", report.bytes);
  json.member("bytes_unchecked", report.unchecked);
  json.member("file_bytes", verified.file_bytes);
  write_damage(json, report);
  write_notes(json, verified.opened->checkpoint().catalog());
  json.end_object();
}

// What damage or an unreadable file says is said before what a missing one does.
ExitCode worse_of(ExitCode a, ExitCode b) {
  const auto rank = [](ExitCode code) {
    return code == ExitCode::kIncomplete ? 1 : 2 * static_cast<int>(code);
  };
  return rank(b) > rank(a) ? b : a;
}

Outcome run_verify(const VerifyOptions& options, Output& out) {
  JsonWriter json(out);
  if (options.common.json) begin_files(json);
  ExitCode worst = ExitCode::kOk;
  for (const std::string& name : options.files) {
    const Verified verified =
        verify(name, options.common, options.is_local ? FileScope::kOwn : FileScope::kAll);
    worst = worse_of(worst, verified.exit_code());
    if (options.common.json) {
      write_json(json, verified);
    } else {
      print_text(out, verified, options.common.quiet);
      if (verified.report && !options.common.quiet) {
        print_notes(out, verified.opened->checkpoint().catalog());
      }
    }
    if (!verified.report) print_error(describe({name, verified.report.error()}));
  }
  if (options.common.json) end_files(json, out);
  return worst;
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "Check every byte of files against their hashes");
  command->add_option("FILE", options->files, kCheckpointsHelp)->required()->expected(-1);
  command->add_flag("--local", options->is_local,
                    "Check what lies in FILE itself, and nothing that it has in other files; for "
                    "formats of others, this changes nothing");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "lines for files that are intact");
  add_read_options(*command, options->common);
  set_examples(*command,
               {"espalier verify *.espalier", "espalier verify -q run.espalier && echo intact"});
  command->callback([options, &action] {
    // --quiet prints no notes.
    const bool lists_notes = options->common.json || !options->common.quiet;
    if (lists_notes) options->common.code = CommonOptions::Code::kListed;
    action = [options](Output& out) { return run_verify(*options, out); };
  });
}

}  // namespace espalier::cli
