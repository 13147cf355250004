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

namespace espalier::cli {
namespace {

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> files;
  bool is_local = false;
};

// The result for one file: a report, or the error that prevented reading it.
struct Verdict {
  std::string file;
  std::uint32_t tensors = 0;
  std::uint64_t file_bytes = 0;
  std::optional<CheckpointFile> opened;  // empty if that failed
  Result<VerifyReport> report;

  void fail(Error error) {
    // The line, or the object, names it already.
    if (error.file == file) error.file.clear();
    report = tl::unexpected<Error>(std::move(error));
  }

  ExitCode exit_code() const {
    if (!report) return cli::exit_code(report.error().code);
    return report->error_count == 0 ? ExitCode::kOk : ExitCode::kCheckFailed;
  }
};

Verdict verify(const std::string& name, const CommonOptions& common, FileScope scope) {
  Verdict verdict;
  verdict.file = name;
  auto file = open_file(name, common);
  if (!file) {
    verdict.fail(std::move(file.error()));
    return verdict;
  }
  verdict.tensors = file->checkpoint().tensor_count();
  verdict.file_bytes = file->source().size();
  ProgressBar progress("checking");
  auto report = file->verify({.progress = progress.callback()}, scope);
  if (report) {
    verdict.report = std::move(report);
  } else {
    verdict.fail(std::move(report.error()));
  }
  verdict.opened = std::move(*file);
  return verdict;
}

void print_text(Output& out, const Verdict& verdict, bool quiet) {
  if (!verdict.report) return;  // The error is on standard error.
  const VerifyReport& report = *verdict.report;
  const std::string name = escaped(shown_name(verdict.file));
  if (report.error_count == 0) {
    if (quiet) return;
    const std::string tensors = counted(verdict.tensors, "tensor");
    const std::string size = format_size(verdict.file_bytes);
    if (report.has_hashes) {
      out.print("{}: ok ({}, {}, {}){}\n", name, tensors, counted(report.chunks, "chunk"), size,
                report.unchecked == 0 ? std::string()
                                      : "; " + format_size(report.unchecked) +
                                            " are patches of other files, and were not checked");
    } else if (report.checksums > 0) {
      out.print("{}: ok ({}, {} of the zip archive, {}){}\n", name, tensors,
                counted(report.checksums, "CRC-32"), size,
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
  print_damage(out, verdict.file, report);
}

void write_json(JsonWriter& json, const Verdict& verdict) {
  json.begin_object();
  json.member("file", shown_name(verdict.file));
  json.member("ok", verdict.exit_code() == ExitCode::kOk);
  if (!verdict.report) {
    json.key("failure");
    json.begin_object();
    write_error_members(json, verdict.report.error());
    json.end_object();
    json.end_object();
    return;
  }
  const VerifyReport& report = *verdict.report;
  json.member("hashes", report.has_hashes);
  json.member("tensors", verdict.tensors);
  json.member("chunks", report.chunks);
  json.member("checksums", report.checksums);
  json.member("bytes_checked", report.bytes);
  json.member("bytes_unchecked", report.unchecked);
  json.member("file_bytes", verdict.file_bytes);
  write_damage(json, report);
  write_notes(json, verdict.opened->checkpoint().catalog());
  json.end_object();
}

Outcome run_verify(const VerifyOptions& options, Output& out) {
  JsonWriter json(out);
  if (options.common.json) begin_files(json);
  ExitCode worst = ExitCode::kOk;
  for (const std::string& name : options.files) {
    const Verdict verdict =
        verify(name, options.common, options.is_local ? FileScope::kOwn : FileScope::kAll);
    worst = std::max(worst, verdict.exit_code());
    if (options.common.json) {
      write_json(json, verdict);
    } else {
      print_text(out, verdict, options.common.quiet);
      if (verdict.report && !options.common.quiet) {
        print_notes(out, verdict.opened->checkpoint().catalog());
      }
    }
    if (!verdict.report) print_error(describe({name, verdict.report.error()}));
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
