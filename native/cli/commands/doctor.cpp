// espalier doctor: what is wrong with the numbers of a checkpoint.

#include <algorithm>
#include <complex>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "cli/opening/chunk_groups.h"
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
#include "espalier/format/all_notes.h"
#include "espalier/health/check.h"
#include "espalier/notes.h"
#include "espalier/report/node_paths.h"
#include "espalier/tree/magnitude.h"

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

struct Examination {
  /// What the file's own program would run: no finding of the numbers, and told before them.
  std::uint64_t code = 0;
  std::vector<Finding> findings;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  /// Tensors without elements that can be looked at: placeholders and opaque blocks.
  std::uint64_t placeholders = 0;
  std::uint64_t opaque = 0;
  /// Matrices that no other tensor resembles, of which size and sign are not judged.
  std::uint64_t alone = 0;
  /// Whether tensors were left out, which others are then not compared with.
  bool is_of_some = false;

  std::uint64_t count(Severity severity) const {
    return static_cast<std::uint64_t>(
        std::count_if(findings.begin(), findings.end(),
                      [&](const Finding& finding) { return finding.severity == severity; }));
  }
};

// A tensor is surveyed by one thread, because its elements come in order: the hash needs it.
Result<TensorSurvey> survey(const CheckpointFile& file, const TensorRef& tensor,
                            ChunkGroupBuffer& buffer, ProgressBar& progress) {
  Surveyor surveyor(tensor.dtype(), tensor.shape());
  for (const ChunkGroup& group : chunk_groups_of(tensor)) {
    auto packed = read_group(file, tensor, group, buffer);
    if (!packed) return propagate(packed);
    surveyor.add(*packed);
    progress.add(packed->size());
  }
  return surveyor.survey();
}

// Damage is what the command looks for; a disk or a network that fails, or a file that another
// program writes to, ends it.
bool is_of_the_file(const Error& error) {
  return error.code != ErrorCode::kIoError && error.code != ErrorCode::kFileChanged &&
         error.code != ErrorCode::kOutOfMemory;
}

// The node as a number, if it is one that is no tensor.
std::optional<double> number_of(const NodeRef& node) {
  if (const auto integer = node.as_int64()) return static_cast<double>(*integer);
  if (const auto real = node.as_double()) return real;
  if (const auto pair = node.as_complex()) return magnitude(std::complex<double>(*pair));
  return std::nullopt;
}

// Placeholders whose elements the opener could not find, because a file is damaged or missing.
// Notes say why: those of a tensor, or else the last one of the whole file.
void add_lost(const AllNotes& notes, const std::vector<std::string>& placeholders,
              HealthCheck& check) {
  std::map<std::string_view, std::string_view> of_path;
  std::string_view of_file;
  for (const Note& note : notes.listed) {
    if (note.kind != Note::Kind::kLoss) continue;
    (note.path.empty() ? of_file : of_path[note.path]) = note.message;
  }
  std::vector<std::string_view> others;
  for (const std::string& path : placeholders) {
    const auto own = of_path.find(path);
    if (own == of_path.end()) {
      others.emplace_back(path);
    } else {
      check.add_unreadable(path, std::string(own->second));
    }
  }
  if (others.empty() || of_file.empty()) return;
  std::string reason(of_file);
  if (others.size() > 1) {
    reason += fmt::format("; so {} {} more", others.size() == 2 ? "is" : "are", others.size() - 1);
  }
  check.add_unreadable(others.front(), std::move(reason));
}

Result<Examination> examine(const CheckpointFile& file, const std::vector<std::uint32_t>& nodes,
                            unsigned threads) {
  Examination examination;
  std::vector<std::uint32_t> first_nodes;
  std::vector<std::uint32_t> numbers;
  std::vector<std::string> placeholders;
  const NodePaths paths(file.checkpoint());
  std::vector<bool> seen(file.checkpoint().tensor_count());
  for (const std::uint32_t number : nodes) {
    const NodeRef node(&file.checkpoint().catalog(), number);
    if (number_of(node)) numbers.push_back(number);
    const auto tensor = node.tensor();
    if (!tensor || seen[tensor->number()]) continue;
    seen[tensor->number()] = true;
    if (tensor->is_placeholder()) {
      placeholders.push_back(paths.path(number));
      continue;
    }
    examination.opaque += tensor->dtype() == DType::kOpaque ? 1 : 0;
    ++examination.tensors;
    examination.bytes += tensor->bytes();
    first_nodes.push_back(number);
  }
  ProgressBar progress("examining", examination.bytes);
  HealthCheck check;
  std::mutex adding;
  std::vector<std::optional<Error>> errors(first_nodes.size());
  std::vector<ChunkGroupBuffer> buffers(thread_count(threads));
  auto done = parallel_for(
      first_nodes.size(), threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const NodeRef node(&file.checkpoint().catalog(), first_nodes[i]);
        auto surveyed = survey(file, *node.tensor(), buffers[worker], progress);
        if (surveyed) {
          const std::string path = paths.path(first_nodes[i]);
          const std::lock_guard lock(adding);
          check.add(i, path, std::move(*surveyed));
        } else if (is_of_the_file(surveyed.error())) {
          errors[i] = surveyed.error();
        } else {
          return propagate(surveyed);
        }
        return {};
      });
  if (!done) return propagate(done);
  for (std::size_t i = 0; i < first_nodes.size(); ++i) {
    if (errors[i]) check.add_unreadable(paths.path(first_nodes[i]), errors[i]->message);
  }
  for (const std::uint32_t number : numbers) {
    check.add_number(paths.path(number), *number_of({&file.checkpoint().catalog(), number}));
  }
  add_lost(all_notes(file.checkpoint().catalog()), placeholders, check);
  examination.placeholders = placeholders.size();
  examination.findings = check.findings();
  examination.alone = check.alone();
  examination.is_of_some = std::find(seen.begin(), seen.end(), false) != seen.end();
  return examination;
}

std::string summary_of(const Examination& examination) {
  std::string text;
  if (examination.code > 0) text = counted(examination.code, "name") + " of code";
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
                const Examination& examination) {
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
  out.print("{}: {}\n", escaped(shown_name(options.file)), summary_of(examination));
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
  auto examination = examine(*file, *nodes, options.common.threads);
  if (!examination) return about(options.file, examination);
  const Catalog& catalog = file->checkpoint().catalog();
  // What a map makes of a file has no notes.
  examination->code = std::max(catalog.notes().code().size(), told_code(shown_name(options.file)));
  if (json != nullptr) {
    write_json(*json, options, catalog, *examination);
  } else {
    print_text(out, options, catalog, *examination);
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
