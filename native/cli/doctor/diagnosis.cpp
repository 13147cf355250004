#include "cli/doctor/diagnosis.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace espalier::cli {
namespace {

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

void compare_findings(std::vector<ToldFinding>& findings, std::vector<Finding> before,
                      const IgnoresOfFile& ignores) {
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
    // What is ignored says nothing when it is gone.
    if (is_met[i] || ignores.match(before[i])) continue;
    findings.push_back({std::move(before[i]), Standing::kGone});
  }
}

}  // namespace espalier::cli
