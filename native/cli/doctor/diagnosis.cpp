#include "cli/doctor/diagnosis.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "espalier/health/check.h"
#include "espalier/report/node_paths.h"
#include "espalier/walker.h"

namespace espalier::cli {
namespace {

// Tensors of a model that may be missing: one of so many.
constexpr std::size_t kOneOfMissing = 10;

template <class Wanted>
std::uint64_t count_of(const std::vector<ToldFinding>& findings, const Wanted& wanted) {
  return static_cast<std::uint64_t>(std::count_if(findings.begin(), findings.end(), wanted));
}

}  // namespace

std::uint64_t Diagnosis::listed(Severity severity) const {
  return count_of(findings, [&](const ToldFinding& told) {
    return told.is_listed() && told.finding.severity == severity;
  });
}

std::uint64_t Diagnosis::counting(Severity severity) const {
  return count_of(findings, [&](const ToldFinding& told) {
    return told.counts() && told.finding.severity == severity;
  });
}

std::uint64_t Diagnosis::ignored() const {
  return count_of(findings, [](const ToldFinding& told) { return told.is_ignored(); });
}

std::uint64_t Diagnosis::with(Standing standing) const {
  return count_of(findings, [&](const ToldFinding& told) {
    return !told.is_ignored() && told.standing == standing;
  });
}

std::uint64_t Diagnosis::hidden_by(const IgnoreList& list) const {
  return count_of(findings, [&](const ToldFinding& told) {
    return told.is_ignored() && told.ignored_by->list == &list;
  });
}

TensorNames tensor_names(const Checkpoint& checkpoint, std::span<const std::uint32_t> nodes) {
  TensorNames names;
  std::unordered_map<std::uint32_t, std::size_t> places;
  const NodePaths paths(checkpoint);
  for (const std::uint32_t number : nodes) {
    const auto tensor = NodeRef(&checkpoint.catalog(), number).tensor();
    if (!tensor) continue;
    const auto [place, is_new] = places.try_emplace(tensor->number(), names.size());
    if (is_new) names.emplace_back();
    names[place->second].push_back(HealthCheck::shown_path(paths.path(number)));
  }
  return names;
}

void find_missing(std::vector<ToldFinding>& findings, const TensorNames& tensors,
                  const NodeRef& state) {
  std::unordered_set<std::string> present;
  for (const auto [path, node] : Walk(state)) {
    if (node.size() == 0) present.insert(HealthCheck::shown_path(path));
  }
  std::vector<std::string_view> missing;
  for (const auto& names : tensors) {
    const bool is_there = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return present.contains(name);
    });
    if (!is_there) missing.push_back(names.front());
  }
  std::unordered_set<std::string> told;
  std::unordered_map<std::string, std::size_t> layers;  // of which all is missing: their findings
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i].finding;
    if (finding.rule != HealthRule::kMissing) continue;
    told.insert(finding.path);
    if (finding.other.empty()) layers.emplace(finding.path, i);
  }
  const bool are_few = missing.size() * kOneOfMissing <= tensors.size();
  const Severity severity = are_few ? Severity::kWarning : Severity::kNote;
  for (const std::string_view path : missing) {
    bool is_told = told.contains(std::string(path));
    for (std::size_t end = path.find_first_of("./"); end != std::string_view::npos && !is_told;
         end = path.find_first_of("./", end + 1)) {
      const auto layer = layers.find(std::string(path.substr(0, end)));
      if (layer == layers.end()) continue;
      // Its tensors were there before, so it is no number of a module without any.
      Severity& of_layer = findings[layer->second].finding.severity;
      of_layer = std::max(of_layer, severity);
      is_told = true;
    }
    if (is_told) continue;
    Finding& finding = findings.emplace_back().finding;
    finding.rule = HealthRule::kMissing;
    finding.severity = severity;
    finding.path = path;
    finding.text = "is missing";
  }
}

void compare_findings(std::vector<ToldFinding>& findings, Before before_all, const NodeRef& state,
                      const IgnoresOfFile& ignores) {
  std::vector<Finding>& before = before_all.findings;
  std::unordered_set<std::string> unexamined;  // tensors of the other checkpoint
  for (const auto& names : before_all.tensors) unexamined.insert(names.begin(), names.end());
  for (const auto [path, node] : Walk(state)) {
    if (node.size() == 0 && node.kind() != Kind::kPlaceholder) {
      unexamined.erase(HealthCheck::shown_path(path));
    }
  }
  for (const ToldFinding& told : findings) {
    if (told.finding.rule == HealthRule::kUnreadable) unexamined.insert(told.finding.path);
  }
  std::map<std::pair<HealthRule, std::string_view>, std::size_t> places;
  for (std::size_t i = 0; i < before.size(); ++i) {
    places.emplace(std::pair(before[i].rule, std::string_view(before[i].path)), i);
  }
  std::vector<bool> is_met(before.size());
  for (ToldFinding& told : findings) {
    told.standing = Standing::kNew;
    const auto found = places.find({told.finding.rule, told.finding.path});
    if (found == places.end()) continue;
    const Severity severity = before[found->second].severity;
    is_met[found->second] = true;
    if (severity < told.finding.severity) {
      told.milder = severity;
    } else {
      told.standing = Standing::kSame;
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    Finding& finding = before[i];
    // What is ignored says nothing when it is gone.
    if (is_met[i] || ignores.match(finding)) continue;
    const bool is_gone =
        finding.rule == HealthRule::kUnreadable || !unexamined.contains(finding.path);
    findings.push_back({std::move(finding), is_gone ? Standing::kGone : Standing::kOpen});
  }
}

}  // namespace espalier::cli
