#include "cli/doctor/run_history.h"

#include <algorithm>
#include <iterator>
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
// Steps that it tells of after the first.
constexpr std::size_t kNamedLater = 3;

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
  const std::size_t place = steps_.size();
  steps_.push_back(step.number);
  NanStep nan{place, {}};
  bool has_nan = false;
  for (const ToldFinding& told : diagnosis.findings) {
    const Finding& finding = told.finding;
    if (finding.rule == HealthRule::kNan) {
      has_nan = true;
      if (nan_paths_.insert(finding.path).second) nan.paths.push_back(finding.path);
    }
    if (!told.is_listed()) {
      ignored_.emplace(finding.rule, finding.path);
      continue;
    }
    RunFinding& kept = facts_[{finding.rule, finding.path}];
    if (kept.steps == 0) {
      kept.finding = finding;
      kept.first = step.number;
      kept.file = step.file;
    }
    kept.finding.severity = std::max(kept.finding.severity, finding.severity);
    kept.last_text = finding_text(finding);
    kept.last = step.number;
    kept.is_still_there = true;
    ++kept.steps;
  }
  if (!nan_.empty() && !has_nan && !without_nan_) without_nan_ = place;
  if (without_nan_ && has_nan && !nan_again_) nan_again_ = place;
  if (!nan.paths.empty()) nan_.push_back(std::move(nan));
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
  text += unknown_before(finding.first);
  if (finding.steps < span)
    text += fmt::format(", but only at {} of {} steps", finding.steps, span);
  if (!finding.is_still_there) {
    const std::uint64_t next = steps_[place(finding.last) + 1];
    text += fmt::format(", gone at {}{}", next, unknown_before(next));
  }
  if (finding.last_text != finding_text(finding.finding)) {
    text += fmt::format("; at step {}: {}", finding.last, finding.last_text);
  }
  return text;
}

std::string RunHistory::unknown_before(std::uint64_t step) const {
  const auto after = std::lower_bound(steps_.begin(), steps_.end(), step);
  const std::uint64_t before = after == steps_.begin() ? 0 : *std::prev(after);
  for (const std::uint64_t failed : failed_) {
    if (failed < step && (after == steps_.begin() || failed >= before)) {
      return fmt::format(" (step {} could not be examined)", failed);
    }
  }
  return {};
}

std::string RunHistory::nan_text() const {
  if (nan_.empty()) return {};
  const auto& [first, paths] = nan_.front();
  std::string text = fmt::format("NaN came first at step {}{}, in {}", steps_[first],
                                 unknown_before(steps_[first]), paths_text(paths));
  std::vector<std::pair<std::size_t, std::string>> later;  // by place
  for (std::size_t i = 1; i < nan_.size(); ++i) {
    const auto& [place, more] = nan_[i];
    later.emplace_back(place,
                       fmt::format("it had spread to {} more: {}", more.size(), paths_text(more)));
  }
  if (without_nan_) later.emplace_back(*without_nan_, "there was none");
  if (nan_again_) later.emplace_back(*nan_again_, "it was back");
  std::sort(later.begin(), later.end());
  for (const auto& [place, what] : std::span(later).first(std::min(later.size(), kNamedLater))) {
    text += fmt::format("; at step {}{}, {}", steps_[place], unknown_before(steps_[place]), what);
  }
  if (later.size() > kNamedLater) text += ", and on";
  if (later.empty() && first + 1 < steps_.size()) text += "; it did not spread";
  return text;
}

std::string RunHistory::summary() const {
  const auto there = static_cast<std::size_t>(std::count_if(
      facts_.begin(), facts_.end(), [](const auto& fact) { return fact.second.is_still_there; }));
  std::string text = counted(steps_.size(), "step") + " examined";
  if (!failed_.empty()) text += fmt::format(", {} not", failed_.size());
  const std::string ignored = ignored_.empty() ? "" : fmt::format(", {} ignored", ignored_.size());
  if (facts_.empty()) return text + (steps_.empty() ? "" : "; nothing found") + ignored;
  text += fmt::format("; {} at step {}", counted(there, "finding"), steps_.back());
  if (there < facts_.size()) text += fmt::format(", {} gone before", facts_.size() - there);
  return text + ignored;
}

void RunHistory::print(Output& out, const Listing& listing) const {
  std::map<HealthRule, std::size_t> counts;
  for (const RunFinding* const kept : findings()) {
    const Finding& finding = kept->finding;
    if (listing.quiet && finding.severity == Severity::kNote) continue;
    if (++counts[finding.rule] > kShownOfRule && !listing.all) continue;
    const Style style = finding.severity == Severity::kNote ? Style::kPlain : Style::kDamage;
    out.print("{}{}: {} [{}]; {}\n",
              out.colors().paint(style, fmt::format("{:<8}", severity_name(finding.severity))),
              out.colors().paint(Style::kPath, path_text(finding.path)), finding_text(finding),
              health_rule_name(finding.rule), when(*kept));
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
    if (kept->last_text != finding_text(kept->finding)) json.member("last_text", kept->last_text);
    json.end_object();
  }
  json.end_array();
  if (nan_.empty()) return;
  json.key("nan");
  json.begin_object();
  json.member("first", steps_[nan_.front().step]);
  write_paths(json, "paths", nan_.front().paths);
  json.key("spread");
  json.begin_array();
  for (std::size_t i = 1; i < nan_.size(); ++i) {
    json.begin_object();
    json.member("step", steps_[nan_[i].step]);
    write_paths(json, "paths", nan_[i].paths);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace espalier::cli
