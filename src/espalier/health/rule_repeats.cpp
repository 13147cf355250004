#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// Anchors at one distance that make a stretch, and the bytes from the first to the last.
constexpr std::size_t kLeastAnchors = 4;
constexpr std::uint64_t kLeastBytes = kLeastRunBytes / 2;
// Fewer values are a table's.
constexpr std::uint64_t kValuesOfRepeats = 1024;
// The share of a tensor's anchors that a table which repeats itself has, at one distance, and at
// several.
constexpr double kShareOfTable = 0.3;
constexpr double kShareOfDistances = 0.25;
constexpr double kSeveral = 1.2;
constexpr double kFewRepeating = 0.25;

struct Place {
  std::uint32_t tensor = 0;
  std::uint64_t at = 0;
};

// Anchors that two tensors, or two places of one, have at one distance.
struct Stretch {
  std::size_t anchors = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The first tensor, the second, and how far the stretch is moved.
using Shift = std::tuple<std::uint32_t, std::uint32_t, std::int64_t>;

bool may_repeat(const Examinee& tensor) {
  const TensorSurvey& survey = tensor.survey;
  return tensor.role == Role::kPlain && !survey.anchors.empty() &&
         survey.distinct > std::min(kValuesOfRepeats, survey.elements / 8);
}

}  // namespace

void judge_repeats(const Cohort& cohort, Findings& found) {
  std::unordered_map<std::uint64_t, Place> seen;
  std::map<Shift, Stretch> stretches;
  std::vector<std::size_t> within(cohort.tensors().size());  // anchors that a tensor repeats itself
  for (std::uint32_t i = 0; i < cohort.tensors().size(); ++i) {
    if (!may_repeat(cohort[i])) continue;
    for (const Anchor& anchor : cohort[i].survey.anchors) {
      const auto [place, is_new] = seen.try_emplace(anchor.hash, Place{i, anchor.at});
      if (is_new) continue;
      const auto& [first, at] = place->second;
      Stretch& stretch = stretches[{first, i, static_cast<std::int64_t>(anchor.at - at)}];
      if (stretch.anchors++ == 0) stretch.begin = anchor.at;
      stretch.begin = std::min(stretch.begin, anchor.at);
      stretch.end = std::max(stretch.end, anchor.at);
      if (first == i) ++within[i];
    }
  }
  // Those that repeat something, and how many of them each group of siblings has.
  std::set<std::uint32_t> repeating;
  for (const auto& [shift, stretch] : stretches) {
    if (stretch.anchors >= kLeastAnchors) repeating.insert(std::get<1>(shift));
  }
  std::vector<std::size_t> of_group;
  of_group.reserve(cohort.groups().size());
  for (const SiblingGroup& group : cohort.groups()) {
    of_group.push_back(static_cast<std::size_t>(
        std::count_if(group.members.begin(), group.members.end(),
                      [&](std::uint32_t i) { return repeating.count(i) > 0; })));
  }
  for (const auto& [shift, stretch] : stretches) {
    const auto& [first, second, distance] = shift;
    const Examinee& a = cohort[first];
    const Examinee& b = cohort[second];
    const std::uint64_t size = stretch.end - stretch.begin;
    if (stretch.anchors < kLeastAnchors || size * dtype_bits(b.survey.dtype) / 8 < kLeastBytes) {
      continue;
    }
    if (first == second) {
      const auto all = static_cast<double>(b.survey.anchors.size());
      const auto own = static_cast<double>(within[second]);
      const auto here = static_cast<double>(stretch.anchors);
      if (own > kShareOfDistances * all && own > kSeveral * here) continue;
      // A table lies over itself; what was written twice lies beside itself.
      const bool overlaps = size > static_cast<std::uint64_t>(distance < 0 ? -distance : distance);
      if (here > kShareOfTable * all && overlaps) continue;
      // Whole rows are those of equal_rows.
      const auto columns = static_cast<std::int64_t>(b.survey.view.columns);
      if (b.survey.equal_rows.repeated > 0 && columns > 0 && distance % columns == 0) continue;
    } else {
      if (a.survey.hash == b.survey.hash) continue;
      // An average, or an earlier state: rows that were not trained are still the same.
      if (distance == 0 && !(a.kind == b.kind)) continue;
    }
    const auto members = static_cast<double>(cohort.siblings_of(b).members.size());
    const bool is_usual =
        cohort.has_siblings(b) && static_cast<double>(of_group[b.group]) > kFewRepeating * members;
    const auto from =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(stretch.begin) - distance);
    found.add(HealthRule::kRepeated, is_usual ? Severity::kNote : Severity::kWarning, b.path,
              "about " + grouped(size) + " elements from " +
                  index_text(stretch.begin, b.survey.shape) + " stand, too, at " +
                  index_text(from, a.survey.shape) + " of" +
                  (first == second ? " the same tensor" : ""),
              stretch.begin, first == second ? std::string_view() : std::string_view(a.path));
  }
}

}  // namespace espalier
