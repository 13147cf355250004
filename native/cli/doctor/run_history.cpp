#include "cli/doctor/run_history.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "cli/terminal/text.h"
#include "espalier/base/counted.h"

namespace espalier::cli {
namespace {

// Paths that a line on NaN names.
constexpr std::size_t kNamedPaths = 5;

std::string paths_text(std::span<const std::string> paths) {
  std::string text;
  for (const std::string& path : paths.first(std::min(paths.size(), kNamedPaths))) {
    text += (text.empty() ? "" : ", ") + mention_text(path);
  }
  if (paths.size() > kNamedPaths) text += fmt::format(" and {} more", paths.size() - kNamedPaths);
  return text;
}

void write_paths(JsonWriter& json, std::string_view name, std::span<const std::string> paths) {
  json.key(name);
  json.begin_array();
  for (const std::string& path : paths) json.value(path);
  json.end_array();
}

}  // namespace

void RunHistory::add(const RunStep& step, const Diagnosis& diagnosis) {
  for (auto& [fact, kept] : facts_) kept.is_still_there = false;
  std::vector<std::string> nan;
  for (const ToldFinding& told : diagnosis.findings) {
    if (!told.is_listed()) continue;
    const Finding& finding = told.finding;
    RunFinding& kept = facts_[{finding.rule, finding.path}];
    if (kept.steps == 0) {
      kept.finding = finding;
      kept.first = step.number;
      kept.file = step.file;
    }
    kept.finding.severity = std::max(kept.finding.severity, finding.severity);
    kept.last = step.number;
    kept.is_still_there = true;
    ++kept.steps;
    if (finding.rule == HealthRule::kNan) nan.push_back(finding.path);
  }
  if (!nan_step_ && !nan.empty()) {
    nan_step_ = steps_.size();
    nan_paths_ = std::move(nan);
  } else if (nan_step_ && *nan_step_ + 1 == steps_.size()) {
    const std::set<std::string_view> old(nan_paths_.begin(), nan_paths_.end());
    for (std::string& path : nan) {
      if (!old.contains(path)) spread_paths_.push_back(std::move(path));
    }
  }
  steps_.push_back(step.number);
}

std::vector<const RunFinding*> RunHistory::findings() const {
  std::vector<const RunFinding*> findings;
  for (const auto& [fact, kept] : facts_) findings.push_back(&kept);
  std::stable_sort(findings.begin(), findings.end(), [](const auto* a, const auto* b) {
    return std::tuple(b->finding.severity, a->first) < std::tuple(a->finding.severity, b->first);
  });
  return findings;
}

std::string RunHistory::when(const RunFinding& finding) const {
  const auto place = [&](std::uint64_t number) {
    return static_cast<std::size_t>(std::find(steps_.begin(), steps_.end(), number) -
                                    steps_.begin());
  };
  const std::size_t span = place(finding.last) - place(finding.first) + 1;
  std::string text = finding.is_still_there ? fmt::format("since step {}", finding.first)
                     : finding.first == finding.last
                         ? fmt::format("at step {}", finding.first)
                         : fmt::format("at steps {} to {}", finding.first, finding.last);
  if (finding.steps < span) text += fmt::format(", but only at {} of {}", finding.steps, span);
  if (!finding.is_still_there) text += fmt::format(", gone at {}", steps_[place(finding.last) + 1]);
  return text;
}

std::string RunHistory::nan_text() const {
  if (!nan_step_) return {};
  std::string text =
      fmt::format("NaN came first at step {}, in {}", steps_[*nan_step_], paths_text(nan_paths_));
  if (*nan_step_ + 1 == steps_.size()) return text;
  text += fmt::format("; at step {}, ", steps_[*nan_step_ + 1]);
  if (spread_paths_.empty()) return text + "it had not spread";
  return text + fmt::format("it had spread to {} more: {}", spread_paths_.size(),
                            paths_text(spread_paths_));
}

std::string RunHistory::summary() const {
  const auto there = static_cast<std::size_t>(std::count_if(
      facts_.begin(), facts_.end(), [](const auto& fact) { return fact.second.is_still_there; }));
  std::string text = counted(steps_.size(), "step") + " examined";
  if (failed_ > 0) text += fmt::format(", {} not", failed_);
  if (facts_.empty()) return text + "; nothing found";
  text += fmt::format("; {} at step {}", counted(there, "finding"), steps_.back());
  if (there < facts_.size()) text += fmt::format(", {} gone before", facts_.size() - there);
  return text;
}

void RunHistory::print(Output& out, const Listing& listing) const {
  std::map<HealthRule, std::size_t> counts;
  for (const RunFinding* const kept : findings()) {
    const Finding& finding = kept->finding;
    if (listing.quiet && finding.severity == Severity::kNote) continue;
    if (++counts[finding.rule] > kShownOfRule && !listing.all) continue;
    const Style style = finding.severity == Severity::kNote ? Style::kPlain : Style::kDamage;
    out.print("{}{}: {}; {}\n",
              out.colors().paint(style, fmt::format("{:<8}", severity_name(finding.severity))),
              out.colors().paint(Style::kPath, path_text(finding.path)), finding_text(finding),
              when(*kept));
  }
  for (const auto& [rule, count] : counts) {
    if (count <= kShownOfRule || listing.all) continue;
    out.print("        {} more of {}: use --all\n", count - kShownOfRule, health_rule_name(rule));
  }
  if (const std::string text = nan_text(); !text.empty()) out.print("{}\n", text);
}

void RunHistory::write_members(JsonWriter& json) const {
  json.key("findings");
  json.begin_array();
  for (const RunFinding* const kept : findings()) {
    json.begin_object();
    write_finding_members(json, kept->finding);
    json.member("first", kept->first);
    json.member("last", kept->last);
    json.member("steps", std::uint64_t{kept->steps});
    json.member("still", kept->is_still_there);
    json.end_object();
  }
  json.end_array();
  if (!nan_step_) return;
  json.key("nan");
  json.begin_object();
  json.member("first", steps_[*nan_step_]);
  write_paths(json, "paths", nan_paths_);
  if (*nan_step_ + 1 < steps_.size()) {
    json.member("next", steps_[*nan_step_ + 1]);
    write_paths(json, "spread", spread_paths_);
  }
  json.end_object();
}

}  // namespace espalier::cli
