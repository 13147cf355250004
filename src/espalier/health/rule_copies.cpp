#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// Fewer elements, or values, are the same by chance.
constexpr std::uint64_t kFewToCopy = 16;
constexpr std::uint64_t kFewBytes = 64;  // of opaque blocks
// Equal tensors that are how a kind is made, and not copies by a mistake: experts that begin as
// one.
constexpr std::size_t kManyEqual = 3;
// Pairs of equal tensors under the same two subtrees that are told as one.
constexpr std::size_t kCopiedTree = 3;

// Two tensors with the same bytes.
struct Copy {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  Severity severity = Severity::kNote;
};

// What two paths have before the segments at their ends that are the same.
std::pair<std::string, std::string> differing_heads(std::string_view a, std::string_view b) {
  const auto begins_segment = [](std::string_view path, std::size_t from_end) {
    const std::size_t at = path.size() - from_end;
    return at == 0 || path[at - 1] == '/' || path[at - 1] == '.';
  };
  std::size_t same = 0;
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    if (a[a.size() - i] != b[b.size() - i]) break;
    if (begins_segment(a, i) && begins_segment(b, i)) same = i;
  }
  const auto head = [&](std::string_view path) {
    const std::size_t end = path.size() - same;
    return std::string(path.substr(0, same == 0 || end == 0 ? end : end - 1));
  };
  return {head(a), head(b)};
}

bool may_be_copy(const Examinee& tensor) {
  const TensorSurvey& survey = tensor.survey;
  if (survey.dtype == DType::kOpaque) return survey.bytes >= kFewBytes;
  return tensor.role == Role::kPlain && survey.is_judged() && survey.elements >= kFewToCopy &&
         survey.distinct > kFewToCopy;
}

std::vector<Copy> find_copies(const Cohort& cohort) {
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, DType>;
  std::map<Identity, std::vector<std::uint32_t>> groups;
  for (std::uint32_t i = 0; i < cohort.tensors().size(); ++i) {
    const TensorSurvey& survey = cohort[i].survey;
    if (!may_be_copy(cohort[i])) continue;
    groups[{survey.hash.low, survey.hash.high, survey.bytes, survey.dtype}].push_back(i);
  }
  // How many pairs two kinds have: an average of a model has one for each tensor.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> pairs;
  const auto kinds = [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(cohort[a].kind.id, cohort[b].kind.id);
  };
  for (const auto& [identity, group] : groups) {
    for (std::size_t i = 1; i < group.size(); ++i) ++pairs[kinds(group.front(), group[i])];
  }
  const auto is_surely_of_kind = [&](const Examinee& tensor) {
    return cohort.has_siblings(tensor) && cohort.siblings_of(tensor).level == SiblingLevel::kNumber;
  };
  std::vector<Copy> copies;
  for (const auto& [identity, group] : groups) {
    const Examinee& a = cohort[group.front()];
    for (std::size_t i = 1; i < group.size(); ++i) {
      const Examinee& b = cohort[group[i]];
      bool is_mistake = false;
      if (a.kind == b.kind) {
        const bool is_made_so =
            group.size() >= kManyEqual && 2 * group.size() >= cohort.kind_of(a).size();
        is_mistake = !is_made_so && cohort.siblings_of(a).members.size() >= kManyEqual;
      } else {
        is_mistake = pairs.at(kinds(group.front(), group[i])) == 1 && b.survey.view.rank >= 2 &&
                     is_surely_of_kind(a) && is_surely_of_kind(b);
      }
      copies.push_back(
          {group.front(), group[i], is_mistake ? Severity::kWarning : Severity::kNote});
    }
  }
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
    return std::pair(a.first, a.second) < std::pair(b.first, b.second);
  });
  return copies;
}

}  // namespace

void judge_copies(const Cohort& cohort, Findings& found) {
  const std::vector<Copy> copies = find_copies(cohort);
  struct Trees {
    std::size_t count = 0;
    Severity severity = Severity::kNote;
    bool is_told = false;
  };
  std::map<std::pair<std::string, std::string>, Trees> trees;
  for (const Copy& copy : copies) {
    Trees& of = trees[differing_heads(cohort[copy.first].path, cohort[copy.second].path)];
    ++of.count;
    of.severity = std::max(of.severity, copy.severity);
  }
  for (const Copy& copy : copies) {
    const std::string& a = cohort[copy.first].path;
    const std::string& b = cohort[copy.second].path;
    const auto heads = differing_heads(a, b);
    Trees& of = trees.at(heads);
    if (of.count < kCopiedTree) {
      found.add(HealthRule::kEqualTensors, copy.severity, b, "has the same bytes as", std::nullopt,
                a);
    } else if (!of.is_told) {
      of.is_told = true;
      found.add(HealthRule::kEqualTensors, of.severity, heads.first,
                grouped(of.count) + " tensors have the same bytes as those of the same names in",
                std::nullopt, heads.second);
    }
  }
}

}  // namespace espalier
