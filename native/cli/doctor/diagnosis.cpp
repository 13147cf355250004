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

std::vector<std::string> tensor_paths(const Checkpoint& checkpoint,
                                      std::span<const std::uint32_t> nodes) {
  std::vector<std::string> tensors;
  const NodePaths paths(checkpoint);
  for (const std::uint32_t number : nodes) {
    if (NodeRef(&checkpoint.catalog(), number).tensor()) tensors.push_back(paths.path(number));
  }
  return tensors;
}

void find_missing(std::vector<ToldFinding>& findings, const std::vector<std::string>& tensors,
                  const NodeRef& state) {
  std::unordered_set<std::string> present;
  for (const auto [path, node] : Walk(state)) {
    if (node.size() == 0) present.emplace(path);
  }
  std::vector<std::string_view> missing;
  for (const std::string& path : tensors) {
    if (!present.contains(path)) missing.push_back(path);
  }
  // The finding of a layer that lacks it says less.
  const auto is_named = [&](const ToldFinding& told) {
    return told.finding.rule == HealthRule::kMissing &&
           std::any_of(missing.begin(), missing.end(),
                       [&](std::string_view path) { return told.finding.text.starts_with(path); });
  };
  findings.erase(std::remove_if(findings.begin(), findings.end(), is_named), findings.end());
  const bool are_few = missing.size() * kOneOfMissing <= tensors.size();
  for (const std::string_view path : missing) {
    Finding& finding = findings.emplace_back().finding;
    finding.rule = HealthRule::kMissing;
    finding.severity = are_few ? Severity::kWarning : Severity::kNote;
    finding.path = path;
    finding.text = "is missing";
  }
}

void compare_findings(std::vector<ToldFinding>& findings, std::vector<Finding> before,
                      const NodeRef& state, const IgnoresOfFile& ignores) {
  std::unordered_map<std::string, bool> is_examined;  // of each node that is no container
  for (const auto [path, node] : Walk(state)) {
    if (node.size() == 0) is_examined.emplace(path, node.kind() != Kind::kPlaceholder);
  }
  for (const ToldFinding& told : findings) {
    if (told.finding.rule == HealthRule::kUnreadable) is_examined[told.finding.path] = false;
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
    // A path that was cut is none of a node.
    const auto node = is_examined.find(finding.path);
    const bool is_gone = finding.path.size() >= HealthCheck::kMostPathBytes ||
                         finding.rule == HealthRule::kUnreadable ||
                         (node != is_examined.end() && node->second);
    findings.push_back({std::move(finding), is_gone ? Standing::kGone : Standing::kOpen});
  }
}

}  // namespace espalier::cli
