#include "cli/doctor/sarif.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cli/doctor/report.h"
#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "espalier/notes.h"
#include "espalier/version.h"

namespace espalier::cli {
namespace {

constexpr std::array<std::string_view, kHealthRules> kRuleSummaries = {
    "A tensor is damaged, or lies in a file that is missing.",
    "Elements are NaN.",
    "Elements are infinite.",
    "An average of squares has negative elements.",
    "All elements of a tensor are zero.",
    "All elements of a tensor are equal.",
    "One element is repeated over 4 KiB.",
    "Rows of a matrix are zero.",
    "Columns of a matrix are zero.",
    "Rows of a matrix are equal.",
    "A tensor has more zeros than its siblings.",
    "Elements of a vector are zero while no other one is near zero.",
    "A tensor has few different values.",
    "The last bits of all elements are zero.",
    "Elements have the largest magnitude of their dtype.",
    "Elements have a magnitude beyond 10^30.",
    "Few elements are far larger than all others.",
    "The largest element is further from the others than in the siblings.",
    "Few rows of a matrix have a far larger norm than the others.",
    "Few columns of a matrix have a far larger norm than the others.",
    "The norms of the rows differ more than in the siblings.",
    "A matrix has a lower rank than its siblings.",
    "The norm of a tensor differs from those of its siblings.",
    "The mean of a tensor differs from those of its siblings: shifted or negated.",
    "A matrix has negative elements, and its siblings have none.",
    "A tensor has another shape than all others of its kind.",
    "A tensor has another dtype than most others of its kind.",
    "A layer lacks tensors that all others like it have, or a stack lacks a layer.",
    "Two tensors that are not tied have the same bytes.",
    "A stretch of bytes stands twice.",
    "An average of gradients does not fit its average of squares.",
    "Moments are zero while their partners are not.",
    "Counters of steps differ.",
    "Half of the elements or more are below the normal range.",
};

std::string_view level_of(Severity severity) {
  switch (severity) {
    case Severity::kFault:
      return "error";
    case Severity::kWarning:
      return "warning";
    default:
      return "note";
  }
}

std::string_view baseline_state(const ToldFinding& told) {
  if (told.milder) return "updated";
  switch (told.standing) {
    case Standing::kNew:
      return "new";
    case Standing::kSame:
    case Standing::kOpen:  // nothing says that it is mended
      return "unchanged";
    case Standing::kGone:
      return "absent";
    default:
      return "";
  }
}

void write_message(JsonWriter& json, std::string_view name, std::string_view text) {
  json.key(name);
  json.begin_object();
  json.member("text", text);
  json.end_object();
}

}  // namespace

std::string_view rule_summary(HealthRule rule) {
  return kRuleSummaries[static_cast<std::size_t>(rule)];
}

std::string uri_of(std::string_view file) {
  const bool is_remote = is_url(file);
  std::string uri = !is_remote && file.starts_with('/') ? "file://" : "";
  for (const char c : file) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    if (is_plain || (is_remote && std::string_view(":@%").find(c) != std::string_view::npos)) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return uri;
}

void SarifReport::begin() {
  if (std::exchange(has_begun_, true)) return;
  json_.begin_object();
  json_.member("$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  json_.member("version", "2.1.0");
  json_.key("runs");
  json_.begin_array();
  json_.begin_object();
  json_.key("tool");
  json_.begin_object();
  json_.key("driver");
  json_.begin_object();
  json_.member("name", "espalier doctor");
  json_.member("version", ESPALIER_VERSION);
  json_.key("rules");
  json_.begin_array();
  for (std::size_t i = 0; i < kHealthRules; ++i) {
    const auto rule = static_cast<HealthRule>(i);
    json_.begin_object();
    json_.member("id", health_rule_name(rule));
    write_message(json_, "shortDescription", rule_summary(rule));
    json_.end_object();
  }
  json_.end_array();
  json_.end_object();
  json_.end_object();
  json_.key("results");
  json_.begin_array();
}

void SarifReport::write_location(const std::string& file) {
  json_.key("physicalLocation");
  json_.begin_object();
  json_.key("artifactLocation");
  json_.begin_object();
  json_.member("uri", uri_of(file));
  json_.end_object();
  json_.end_object();
}

void SarifReport::add_result(const std::string& file, const ToldFinding& told,
                             const std::string& text) {
  begin();
  const Finding& finding = told.finding;
  json_.begin_object();
  json_.member("ruleId", health_rule_name(finding.rule));
  json_.member("ruleIndex", static_cast<std::uint64_t>(finding.rule));
  json_.member("level", level_of(finding.severity));
  write_message(json_, "message", text);
  json_.key("locations");
  json_.begin_array();
  json_.begin_object();
  write_location(file);
  json_.key("logicalLocations");
  json_.begin_array();
  json_.begin_object();
  json_.member("fullyQualifiedName", finding.path);
  json_.end_object();
  json_.end_array();
  json_.end_object();
  json_.end_array();
  if (const auto state = baseline_state(told); !state.empty()) {
    json_.member("baselineState", state);
  }
  if (told.is_ignored()) {
    json_.key("suppressions");
    json_.begin_array();
    json_.begin_object();
    json_.member("kind", "external");
    json_.member("justification", ignored_text(*told.ignored_by));
    json_.end_object();
    json_.end_array();
  }
  json_.end_object();
}

void SarifReport::add(const Diagnosis& diagnosis) {
  begin();
  for (const ToldFinding& told : diagnosis.findings) {
    add_result(diagnosis.file, told,
               path_text(told.finding.path) + ": " + finding_text(told.finding));
  }
  for (const Note& note : diagnosis.catalog->notes().code()) {
    notifications_.push_back(
        {"warning", diagnosis.file,
         (note.path.empty() ? "" : path_text(note.path) + ": ") + note.message});
  }
  for (const IgnoreList* const list : diagnosis.ignore_lists) {
    if (!list->is_beside) continue;
    notifications_.push_back({"note", diagnosis.file, beside_text(diagnosis, *list)});
  }
}

void SarifReport::add_failure(const Failure& failure) {
  begin();
  has_failed_ = true;
  notifications_.push_back({"error", shown_name(failure.file), describe(failure)});
}

void SarifReport::finish(ExitCode code) {
  begin();
  json_.end_array();
  json_.key("invocations");
  json_.begin_array();
  json_.begin_object();
  json_.member("executionSuccessful", !has_failed_);
  json_.member("exitCode", static_cast<std::uint64_t>(code));
  json_.key("toolExecutionNotifications");
  json_.begin_array();
  for (const Notification& notification : notifications_) {
    json_.begin_object();
    json_.member("level", std::string_view(notification.level));
    write_message(json_, "message", notification.text);
    if (!notification.file.empty()) {
      json_.key("locations");
      json_.begin_array();
      json_.begin_object();
      write_location(notification.file);
      json_.end_object();
      json_.end_array();
    }
    json_.end_object();
  }
  json_.end_array();
  json_.end_object();
  json_.end_array();
  json_.end_object();
  json_.end_array();
  json_.end_object();
  out_.put('\n');
}

}  // namespace espalier::cli
