// espalier doctor: what is wrong with the numbers of a checkpoint.

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "examine/examine_file.h"
#include <fmt/format.h>

#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/notes.h"
#include "cli/opening/several_files.h"
#include "cli/opening/urls.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/health/finding.h"
#include "espalier/notes.h"

namespace espalier::cli {
namespace {

// Findings of one rule that are listed without --all.
constexpr std::size_t kShown = 20;

struct DoctorOptions {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
  bool all = false;
  bool strict = false;
};

// `code` counts what the file's own program would run: no finding of the numbers, and told before
// them.
std::string summary_of(const Examination& examination, std::size_t code) {
  std::string text;
  if (code > 0) text = counted(code, "name") + " of code";
  for (const Severity severity : {Severity::kFault, Severity::kWarning, Severity::kNote}) {
    const std::uint64_t count = examination.count(severity);
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + counted(count, severity_name(severity));
  }
  if (text.empty()) text = "nothing found";
  text += fmt::format("; {} examined, {}", counted(examination.tensors, "tensor"),
                      format_size(examination.bytes));
  if (examination.placeholders > 0) {
    text += fmt::format("; {} without elements", counted(examination.placeholders, "placeholder"));
  }
  if (examination.alone > 0) {
    text += fmt::format("; {} {} like no other: size and sign are not judged", examination.alone,
                        examination.alone == 1 ? "matrix is" : "matrices are");
  }
  if (examination.is_of_some) text += "; compared with each other alone";
  if (examination.opaque > 0) {
    text += fmt::format("; {} of blocks that are not decoded: compared for equality only",
                        counted(examination.opaque, "tensor"));
  }
  return text;
}

void print_text(Output& out, const DoctorOptions& options, const Catalog& catalog,
                const Examination& examination, std::size_t code) {
  print_code(out, catalog);
  std::map<HealthRule, std::size_t> counts;
  for (const Finding& finding : examination.findings) {
    if (options.common.quiet && finding.severity == Severity::kNote) continue;
    if (++counts[finding.rule] > kShown && !options.all) continue;
    const Style style = finding.severity == Severity::kNote ? Style::kPlain : Style::kDamage;
    std::string line =
        out.colors().paint(style, fmt::format("{:<8}", severity_name(finding.severity)));
    line +=
        out.colors().paint(Style::kPath, path_text(finding.path)) + ": " + escaped(finding.text);
    if (!finding.other.empty()) line += " " + path_text(finding.other);
    out.write(line + "\n");
  }
  for (const auto& [rule, count] : counts) {
    if (count <= kShown || options.all) continue;
    out.print("        {} more of {}: use --all\n", count - kShown, health_rule_name(rule));
  }
  out.print("{}: {}\n", escaped(shown_name(options.file)), summary_of(examination, code));
}

void write_json(JsonWriter& json, const DoctorOptions& options, const Catalog& catalog,
                const Examination& examination) {
  json.begin_object();
  json.member("file", shown_name(options.file));
  write_code(json, catalog);
  json.member("tensors", examination.tensors);
  json.member("bytes", examination.bytes);
  json.member("placeholders", examination.placeholders);
  json.member("opaque", examination.opaque);
  json.member("alone", examination.alone);
  for (const Severity severity : {Severity::kFault, Severity::kWarning, Severity::kNote}) {
    json.member(std::string(severity_name(severity)) + "s", examination.count(severity));
  }
  json.key("findings");
  json.begin_array();
  for (const Finding& finding : examination.findings) {
    json.begin_object();
    json.member("severity", severity_name(finding.severity));
    json.member("rule", health_rule_name(finding.rule));
    json.member("path", finding.path);
    if (!finding.other.empty()) json.member("other", finding.other);
    json.member("text", finding.text);
    if (finding.at) json.member("at", *finding.at);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

Outcome run_on_file(const DoctorOptions& options, Output& out, JsonWriter* json) {
  auto file = open_file(options.file, options.common);
  if (!file) return about(options.file, file);
  auto nodes = select_nodes(*file, options.patterns, true);
  if (!nodes) return about(options.file, nodes);
  auto examination = [&] {
    ProgressBar progress("examining");
    return examine(*file, *nodes, options.common.threads, {.progress = progress.callback()});
  }();
  if (!examination) return about(options.file, examination);
  const Catalog& catalog = file->checkpoint().catalog();
  // What a map makes of a file has no notes.
  const std::size_t code =
      std::max(catalog.notes().code().size(), told_code(shown_name(options.file)));
  if (json != nullptr) {
    write_json(*json, options, catalog, *examination);
  } else {
    print_text(out, options, catalog, *examination, code);
  }
  const bool is_ill = examination->count(Severity::kFault) > 0 ||
                      examination->count(Severity::kWarning) > 0 ||
                      (options.strict && !examination->findings.empty());
  return is_ill ? ExitCode::kCheckFailed : ExitCode::kOk;
}

Outcome run_doctor(const DoctorOptions& options, Output& out) {
  return for_each_file(options.file, options.patterns, options.common, out,
                       [&](const std::string& file, const std::vector<std::string>& patterns,
                           Output& output, JsonWriter* json) {
                         DoctorOptions one = options;
                         one.file = file;
                         one.patterns = patterns;
                         return run_on_file(one, output, json);
                       });
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Look for NaN, dead rows, outliers and other faults in the numbers of tensors");
  command->add_option("FILE", options->file, kCheckpointHelp)->required();
  add_file_or_pattern_arguments(*command, options->patterns);
  command->add_flag(
      "--all", options->all,
      fmt::format("List every finding; by default the first {} of each rule", kShown));
  command->add_flag("--strict", options->strict, "Exit with 1 for notes, too");
  add_json_option(*command, options->common);
  add_quiet_option(*command, options->common, "notes");
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Examine what a key map makes of the file");
  options->common.map.checks_data = true;
  set_examples(*command,
               {"espalier doctor run.espalier", "espalier doctor run.espalier 'model/**' --json"});
  options->common.code = CommonOptions::Code::kListed;
  command->callback([options, &action] {
    action = [options](Output& out) { return run_doctor(*options, out); };
  });
}

}  // namespace espalier::cli
