// espalier doctor: what is wrong with the numbers of a checkpoint.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examine/examine_file.h"
#include <fmt/format.h>

#include "cli/doctor/diagnosis.h"
#include "cli/doctor/github.h"
#include "cli/doctor/ignore_list.h"
#include "cli/doctor/report.h"
#include "cli/doctor/sarif.h"
#include "cli/opening/command.h"
#include "cli/opening/key_maps.h"
#include "cli/opening/notes.h"
#include "cli/opening/several_files.h"
#include "cli/opening/urls.h"
#include "cli/selection/selection.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "espalier/health/finding.h"
#include "espalier/notes.h"

namespace espalier::cli {
namespace {

struct DoctorOptions {
  CommonOptions common;
  std::string file;
  std::vector<std::string> patterns;
  std::vector<std::string> ignores;
  std::vector<std::string> ignore_files;
  std::string since;
  std::string fail_on = "warning";
  std::string format = "text";
  bool no_ignore_file = false;
  bool all = false;
  bool strict = false;

  Listing listing() const { return {all, common.quiet}; }
  // The mildest finding that fails; nothing if none does.
  std::optional<Severity> failing() const {
    if (strict) return Severity::kNote;
    for (const Severity severity : {Severity::kNote, Severity::kWarning, Severity::kFault}) {
      if (fail_on == severity_name(severity)) return severity;
    }
    return std::nullopt;
  }
};

// A checkpoint and what was found in it.
struct Examined {
  CheckpointFile file;
  Examination examination;
};

tl::expected<Examined, Failure> examine_file(const std::string& name,
                                             const std::vector<std::string>& patterns,
                                             const CommonOptions& common) {
  auto file = open_file(name, common);
  if (!file) return about(name, file);
  auto nodes = select_nodes(*file, patterns, true);
  if (!nodes) return about(name, nodes);
  auto examination = [&] {
    ProgressBar progress("examining");
    return examine(*file, *nodes, common.threads, {.progress = progress.callback()});
  }();
  if (!examination) return about(name, examination);
  return Examined{std::move(*file), std::move(*examination)};
}

// One call of the command.
class Doctor {
 public:
  Doctor(const DoctorOptions& options, Output& out) : options_(options), out_(out), sarif_(out) {}

  Outcome run() {
    if (auto ok = ignores_.add(options_.ignores, options_.ignore_files); !ok) {
      return tl::unexpected<Failure>(std::move(ok.error()));
    }
    const bool has_own_form = options_.format == "sarif" || options_.format == "github";
    OnFailure on_failure;
    if (has_own_form) on_failure = [&](const Failure& failure) { fail_with(failure); };
    auto outcome = for_each_file(
        options_.file, options_.patterns, options_.common, out_,
        [&](const std::string& file, const std::vector<std::string>& patterns, Output&,
            JsonWriter* json) { return run_on_file(file, patterns, json); },
        on_failure);
    if (!outcome) return outcome;
    if (options_.format == "sarif") sarif_.finish(*outcome);
    // What is in a file that failed was not compared.
    if (*outcome <= ExitCode::kCheckFailed) ignores_.tell_unmatched();
    return outcome;
  }

 private:
  void fail_with(const Failure& failure) {
    if (options_.format == "sarif") {
      sarif_.add_failure(failure);
    } else {
      print_annotation(out_, failure);
    }
  }

  // The findings of the checkpoint to compare with, examined once.
  tl::expected<std::vector<Finding>, Failure> findings_before(
      const std::vector<std::string>& patterns) {
    if (!before_) {
      CommonOptions common = options_.common;
      common.code = CommonOptions::Code::kTell;
      auto examined = examine_file(options_.since, patterns, common);
      if (!examined) return tl::unexpected<Failure>(std::move(examined.error()));
      before_ = std::move(examined->examination.findings);
    }
    return *before_;
  }

  Outcome run_on_file(const std::string& name, const std::vector<std::string>& patterns,
                      JsonWriter* json) {
    // A file of entries that does not parse is found before the work.
    auto lists = ignores_.of(name, !options_.no_ignore_file);
    if (!lists) return tl::unexpected<Failure>(std::move(lists.error()));
    auto examined = examine_file(name, patterns, options_.common);
    if (!examined) return tl::unexpected<Failure>(std::move(examined.error()));
    Diagnosis diagnosis;
    diagnosis.file = shown_name(name);
    diagnosis.catalog = &examined->file.checkpoint().catalog();
    // What a map makes of a file has no notes.
    diagnosis.code = std::max(diagnosis.catalog->notes().code().size(), told_code(diagnosis.file));
    diagnosis.examination = std::move(examined->examination);
    diagnosis.ignore_lists = *lists;
    const IgnoresOfFile ignores(std::move(*lists), examined->file.state());
    for (Finding& finding : diagnosis.examination.findings) {
      diagnosis.findings.push_back({std::move(finding)});
    }
    diagnosis.examination.findings.clear();
    if (!options_.since.empty()) {
      auto before = findings_before(patterns);
      if (!before) return tl::unexpected<Failure>(std::move(before.error()));
      diagnosis.since = shown_name(options_.since);
      compare_findings(diagnosis.findings, std::move(*before), ignores);
    }
    for (ToldFinding& told : diagnosis.findings) {
      if (told.standing != Standing::kGone) told.ignored_by = ignores.use(told.finding);
    }
    tell(diagnosis, json);
    const auto failing = options_.failing();
    const bool is_ill =
        failing && std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                               [&](const ToldFinding& told) {
                                 return told.counts() && told.finding.severity >= *failing;
                               });
    return is_ill ? ExitCode::kCheckFailed : ExitCode::kOk;
  }

  void tell(const Diagnosis& diagnosis, JsonWriter* json) {
    if (options_.format == "sarif") {
      sarif_.add(diagnosis);
    } else if (options_.format == "github") {
      print_annotations(out_, options_.listing(), diagnosis);
    } else if (json != nullptr) {
      write_diagnosis(*json, diagnosis);
    } else {
      print_diagnosis(out_, options_.listing(), diagnosis);
    }
  }

  const DoctorOptions& options_;
  Output& out_;
  SarifReport sarif_;
  IgnoreLists ignores_;
  std::optional<std::vector<Finding>> before_;
};

Outcome run_doctor(DoctorOptions options, Output& out) {
  if (options.format == "json") options.common.json = true;
  if (options.common.json) options.format = "json";
  return Doctor(options, out).run();
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
      fmt::format("List every finding, and ignored ones; by default the first {} of each rule",
                  kShownOfRule));
  CLI::Option* fail_on =
      command
          ->add_option("--fail-on", options->fail_on,
                       "Exit with 1 for findings that are as bad as this or worse; warning is the "
                       "default")
          ->check(CLI::IsMember({"fault", "warning", "note", "never"}).description(""))
          ->type_name("fault|warning|note|never");
  command->add_flag("--strict", options->strict, "The same as --fail-on note")->excludes(fail_on);
  command
      ->add_option("--since", options->since,
                   "Say what is new since this checkpoint, and what is gone; only new findings "
                   "make the exit code 1")
      ->type_name("FILE");
  command
      ->add_option(
          "--ignore", options->ignores,
          "Don't count findings of RULE, or of all for *, at key paths that match PATTERN; "
          "may be repeated")
      ->type_name("RULE:PATTERN")
      ->allow_extra_args(false);
  command
      ->add_option("--ignore-file", options->ignore_files,
                   "A file of such entries, one a line, with # before comments and reasons; may be "
                   "repeated. FILE.doctor-ignore, or else .doctor-ignore beside FILE, is read, too")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--no-ignore-file", options->no_ignore_file,
                    "Don't read the file of such entries that lies beside FILE");
  add_json_option(*command, options->common);
  command
      ->add_option("--format", options->format,
                   "Print text (the default), JSON as --json does, SARIF 2.1.0 for code scanners, "
                   "or annotations for GitHub Actions")
      ->check(CLI::IsMember({"text", "json", "sarif", "github"}).description(""))
      ->type_name("text|json|sarif|github")
      ->excludes(command->get_option("--json"))
      ->group(kOutputGroup);
  add_quiet_option(*command, options->common, "notes");
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Examine what a key map makes of the file");
  options->common.map.checks_data = true;
  set_examples(*command,
               {"espalier doctor run.espalier", "espalier doctor run.espalier 'model/**' --json",
                "espalier doctor run.espalier --ignore 'dead_rows:model/embed' --fail-on fault",
                "espalier doctor tuned.safetensors --since base.safetensors",
                "espalier doctor model.safetensors --format sarif > doctor.sarif"});
  options->common.code = CommonOptions::Code::kListed;
  command->callback([options, &action] {
    action = [options](Output& out) { return run_doctor(*options, out); };
  });
}

}  // namespace espalier::cli
