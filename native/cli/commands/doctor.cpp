// espalier doctor: what is wrong with the numbers of a checkpoint.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/doctor/diagnosis.h"
#include "cli/doctor/github.h"
#include "cli/doctor/ignore_list.h"
#include "cli/doctor/report.h"
#include "cli/doctor/run_history.h"
#include "cli/doctor/run_steps.h"
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
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/health/finding.h"
#include "espalier/notes.h"
#include "examine/examine_file.h"

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
  bool run = false;
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
  std::vector<std::uint32_t> nodes;
  Examination examination;
};

tl::expected<Examined, Failure> examine_file(const std::string& name,
                                             const std::vector<std::string>& patterns,
                                             const CommonOptions& common) {
  auto file = open_file(name, common);
  if (!file) {
    if (file.error().code == ErrorCode::kNotARegularFile && find_steps(name)) {
      file.error().message += "; --run examines all of them";
    }
    return about(name, file);
  }
  auto nodes = select_nodes(*file, patterns, true);
  if (!nodes) return about(name, nodes);
  auto examination = [&] {
    ProgressBar progress("examining");
    return examine(*file, *nodes, common.threads, {.progress = progress.callback()});
  }();
  if (!examination) return about(name, examination);
  return Examined{std::move(*file), std::move(*nodes), std::move(*examination)};
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
    auto outcome =
        options_.run
            ? run_on_steps()
            : for_each_file(
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

  // The checkpoint to compare with, examined once.
  tl::expected<Before, Failure> examine_before(const std::vector<std::string>& patterns) {
    if (!before_) {
      CommonOptions common = options_.common;
      common.code = CommonOptions::Code::kTell;
      auto examined = examine_file(options_.since, patterns, common);
      if (!examined) return tl::unexpected<Failure>(std::move(examined.error()));
      before_ = {std::move(examined->examination.findings),
                 tensor_names(examined->file.checkpoint(), examined->nodes)};
    }
    return *before_;
  }

  // What is wrong with a checkpoint. The diagnosis is told while the file is open.
  Outcome diagnose(const std::string& name, const std::vector<std::string>& patterns,
                   std::vector<IgnoreList*> lists,
                   const std::function<void(const Diagnosis&)>& told_as) {
    auto examined = examine_file(name, patterns, options_.common);
    if (!examined) return tl::unexpected<Failure>(std::move(examined.error()));
    Diagnosis diagnosis;
    diagnosis.file = shown_name(name);
    diagnosis.catalog = &examined->file.checkpoint().catalog();
    // What a map makes of a file has no notes.
    diagnosis.code = std::max(diagnosis.catalog->notes().code().size(), told_code(diagnosis.file));
    diagnosis.examination = std::move(examined->examination);
    diagnosis.ignore_lists = lists;
    const IgnoresOfFile ignores(std::move(lists), examined->file.state());
    for (Finding& finding : diagnosis.examination.findings) {
      diagnosis.findings.push_back({std::move(finding)});
    }
    diagnosis.examination.findings.clear();
    if (!options_.since.empty()) {
      auto before = examine_before(patterns);
      if (!before) return tl::unexpected<Failure>(std::move(before.error()));
      diagnosis.since = shown_name(options_.since);
      find_missing(diagnosis.findings, before->tensors, examined->file.state());
      compare_findings(diagnosis.findings, std::move(*before), examined->file.state(), ignores);
    }
    if (options_.run) {
      find_missing(diagnosis.findings, so_far_, examined->file.state());
      for (auto& names : tensor_names(examined->file.checkpoint(), examined->nodes)) {
        if (known_.insert(names.front()).second) so_far_.push_back(std::move(names));
      }
    }
    for (ToldFinding& told : diagnosis.findings) {
      if (!told.is_of_before()) told.ignored_by = ignores.use(told.finding);
    }
    told_as(diagnosis);
    const auto failing = options_.failing();
    const bool is_ill =
        failing && std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                               [&](const ToldFinding& told) {
                                 return told.counts() && told.finding.severity >= *failing;
                               });
    return is_ill ? ExitCode::kCheckFailed : ExitCode::kOk;
  }

  Outcome run_on_file(const std::string& name, const std::vector<std::string>& patterns,
                      JsonWriter* json) {
    // A file of entries that does not parse is found before the work.
    auto lists = ignores_.of(name, !options_.no_ignore_file);
    if (!lists) return tl::unexpected<Failure>(std::move(lists.error()));
    return diagnose(name, patterns, std::move(*lists),
                    [&](const Diagnosis& diagnosis) { tell(diagnosis, json); });
  }

  // All steps of a run. Of each, its findings are kept.
  Outcome run_on_steps() {
    const std::string& run = options_.file;
    for (const std::string& pattern : options_.patterns) {
      // Many folders are called "model", and so are many keys.
      std::error_code ignored;
      if (!std::filesystem::is_directory(pattern, ignored) || !find_steps(pattern)) continue;
      return refuse(pattern, "--run takes one folder; call doctor for each run");
    }
    auto lists = ignores_.of(run, !options_.no_ignore_file);
    if (!lists) return tl::unexpected<Failure>(std::move(lists.error()));
    auto found = find_steps(run);
    if (!found) return about(run, found);
    tell_skipped(found->skipped, "there is no finished checkpoint in it");
    tell_skipped(found->unnumbered, "its name does not end in a number after - or _");
    const bool is_text = options_.format == "text", is_github = options_.format == "github";
    JsonWriter json(out_);
    if (options_.common.json) {
      json.begin_object();
      json.member("file", run);
      json.key("steps");
      json.begin_array();
    }
    RunHistory history;
    ExitCode worst = ExitCode::kOk;
    for (const RunStep& step : found->steps) {
      const auto outcome =
          diagnose(step.file, options_.patterns, *lists, [&](const Diagnosis& told) {
            history.add(step, told);
            const std::string line = escaped(step.name) + ": " + summary_text(told);
            if (is_text) out_.print("{}\n", line);
            if (is_github) out_.write(log_line(line));
            if (options_.common.json) write_step(json, step, told);
          });
      if (outcome) {
        worst = std::max(worst, *outcome);
        continue;
      }
      history.add_failed(step);
      const Failure& failure = outcome.error();
      worst = std::max(worst, exit_code(failure.error.code));
      if (options_.common.json) write_failed_step(json, step, failure);
      if (!is_text && !options_.common.json) fail_with(failure);
      print_error(describe(failure));
    }
    if (is_text) {
      history.print(out_, options_.listing());
      for (const IgnoreList* const list : *lists) {
        std::uint64_t matches = 0;
        for (const IgnoreEntry& entry : list->entries) matches += entry.matches;
        if (list->is_beside) {
          out_.print("{}: {} ignored, over all steps\n", escaped(list->name),
                     counted(matches, "finding"));
        }
      }
      out_.print("{}: {}\n", escaped(run), history.summary());
    } else if (options_.common.json) {
      json.end_array();
      history.write_members(json);
      json.end_object();
      out_.put('\n');
    } else {
      tell_history(history);
    }
    return worst;
  }

  // For other programs, a finding is one of the first checkpoint that has it.
  void tell_history(const RunHistory& history) {
    std::map<HealthRule, std::size_t> counts;
    for (const RunFinding* const kept : history.findings()) {
      const std::string text = path_text(kept->finding.path) + ": " + finding_text(kept->finding) +
                               "; " + history.when(*kept);
      if (options_.format == "sarif") {
        sarif_.add_result(kept->file, {kept->finding}, text);
      } else if (options_.common.quiet && kept->finding.severity == Severity::kNote) {
        continue;
      } else if (++counts[kept->finding.rule] <= kShownOfRule || options_.all) {
        print_annotation(out_, kept->file, kept->finding, text);
      }
    }
    if (options_.format == "sarif") return;
    for (const auto& [rule, count] : counts) {
      if (count <= kShownOfRule || options_.all) continue;
      out_.write(log_line(
          fmt::format("{} more of {}: use --all", count - kShownOfRule, health_rule_name(rule))));
    }
    if (const std::string nan = history.nan_text(); !nan.empty()) out_.write(log_line(nan));
    out_.write(log_line(options_.file + ": " + history.summary()));
  }

  static void tell_skipped(const std::vector<std::string>& names, std::string_view why) {
    constexpr std::size_t kNamed = 5;
    if (names.empty()) return;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
      text += (i == 0 ? "" : ", ") + escaped(shortened(names[i], kMaxMentionBytes));
    }
    if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
    print_error("not examined, because " + std::string(why) + ": " + text);
  }

  static void write_step(JsonWriter& json, const RunStep& step, const Diagnosis& told) {
    json.begin_object();
    json.member("step", step.number);
    json.member("name", step.name);
    json.member("tensors", told.examination.tensors);
    json.member("bytes", told.examination.bytes);
    for (const Severity severity : {Severity::kFault, Severity::kWarning, Severity::kNote}) {
      json.member(std::string(severity_name(severity)) + "s", told.listed(severity));
    }
    json.member("ignored", told.ignored());
    json.end_object();
  }

  static void write_failed_step(JsonWriter& json, const RunStep& step, const Failure& failure) {
    json.begin_object();
    json.member("step", step.number);
    json.member("name", step.name);
    json.key("failure");
    json.begin_object();
    write_error_members(json, failure.error);
    json.end_object();
    json.end_object();
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
  std::optional<Before> before_;
  TensorNames so_far_;  // tensors of the steps of a run
  std::unordered_set<std::string> known_;
};

std::string rules_and_exit_codes() {
  std::string text =
      "Exit codes: 0 no finding as bad as --fail-on says; 1 such a finding; 2 or more: an error, "
      "see `espalier --help`. Rules:";
  for (std::size_t i = 0; i < kHealthRules; ++i) {
    text += std::string(i == 0 ? " " : ", ") +
            std::string(health_rule_name(static_cast<HealthRule>(i)));
  }
  return text + ".";
}

Outcome run_doctor(DoctorOptions options, Output& out) {
  if (options.format == "json") options.common.json = true;
  if (options.common.json) options.format = "json";
  // The lines of steps do not list it.
  if (options.run) options.common.code = CommonOptions::Code::kTell;
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
  CLI::Option* run = command->add_flag(
      "--run", options->run,
      "FILE is a folder with the checkpoints of a run: examine all, the earliest first, and say at "
      "which step each finding appeared, and where NaN came first");
  command
      ->add_option("--since", options->since,
                   "Say what is new since this checkpoint, and what is gone; only new findings "
                   "make the exit code 1")
      ->type_name("FILE")
      ->check(
          [](const std::string& name) { return std::string(name.empty() ? "it is empty" : ""); })
      ->excludes(run);
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
  add_quiet_option(*command, options->common, "notes; the exit code is the same");
  add_read_options(*command, options->common);
  add_map_options(*command, options->common.map, "Examine what a key map makes of the file");
  options->common.map.checks_data = true;
  set_examples(*command,
               {"espalier doctor run.espalier", "espalier doctor run.espalier 'model/**' --json",
                "espalier doctor run.espalier --ignore 'dead_rows:model/embed' --fail-on fault",
                "espalier doctor tuned.safetensors --since base.safetensors",
                "espalier doctor --run checkpoints/",
                "espalier doctor model.safetensors --format sarif > doctor.sarif"});
  command->footer(command->get_footer() + "\n" + rules_and_exit_codes());
  options->common.code = CommonOptions::Code::kListed;
  command->callback([options, &action] {
    action = [options](Output& out) { return run_doctor(*options, out); };
  });
}

}  // namespace espalier::cli
