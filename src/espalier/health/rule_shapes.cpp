#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// The share of a kind that may have another shape, or another dtype.
constexpr std::size_t kOneOfShape = 10;
constexpr std::size_t kOneOfDType = 4;
// Elements that an axis may have been cut by.
constexpr std::uint64_t kCut = 2;

using Shape = std::vector<std::uint64_t>;

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t axis : shape) product *= axis;  // of a tensor that was read
  return product;
}

bool is_permuted(Shape a, Shape b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// Whether one axis alone differs, by little.
bool is_cut(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  std::size_t differ = 0;
  std::uint64_t by = 0;
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis] == b[axis]) continue;
    ++differ;
    by = std::max(a[axis], b[axis]) - std::min(a[axis], b[axis]);
  }
  return differ == 1 && by <= kCut;
}

// The most frequent of them, and of several the one that comes first.
template <class Key>
std::pair<Key, std::size_t> usual_of(const std::vector<Key>& all) {
  std::map<Key, std::size_t> counts;
  for (const Key& key : all) ++counts[key];
  std::pair<Key, std::size_t> usual = {all.front(), 0};
  for (const Key& key : all) {
    if (counts.at(key) > usual.second) usual = {key, counts.at(key)};
  }
  return usual;
}

void judge_shape(const Cohort& cohort, const std::vector<std::uint32_t>& members, Findings& found) {
  std::vector<Shape> shapes;
  shapes.reserve(members.size());
  for (const std::uint32_t i : members) shapes.push_back(cohort[i].survey.shape);
  const auto [usual, count] = usual_of(shapes);
  const std::size_t odd = members.size() - count;
  if (odd == 0 || odd > std::max<std::size_t>(1, members.size() / kOneOfShape)) return;
  for (const std::uint32_t i : members) {
    const Shape& shape = cohort[i].survey.shape;
    if (shape == usual) continue;
    const bool is_turned = is_permuted(shape, usual);
    const bool is_short = is_cut(shape, usual);
    if (!is_turned && !is_short && elements_of(shape) != elements_of(usual)) continue;
    const bool is_end = i == members.front() || i == members.back();
    const bool is_note = is_short && cohort[i].survey.view.rank < 2 && is_end;
    found.add(HealthRule::kShape, is_note ? Severity::kNote : Severity::kWarning, cohort[i].path,
              "is " + shape_text(shape) + (is_turned ? ", transposed, and " : ", and ") +
                  grouped(count) + " others of its kind are " + shape_text(usual));
  }
}

void judge_dtype(const Cohort& cohort, const std::vector<std::uint32_t>& members, Findings& found) {
  std::vector<DType> dtypes;
  dtypes.reserve(members.size());
  for (const std::uint32_t i : members) dtypes.push_back(cohort[i].survey.dtype);
  const auto [usual, count] = usual_of(dtypes);
  if (count == members.size() || members.size() - count > members.size() / kOneOfDType) return;
  for (const std::uint32_t i : members) {
    const DType dtype = cohort[i].survey.dtype;
    if (dtype == usual) continue;
    found.add(HealthRule::kMixedDTypes, Severity::kNote, cohort[i].path,
              "is " + std::string(dtype_name(dtype)) + ", and " + grouped(count) +
                  " others of its kind are " + std::string(dtype_name(usual)));
  }
}

}  // namespace

void judge_shapes(const Cohort& cohort, Findings& found) {
  for (const auto& [kind, all] : cohort.kinds()) {
    std::vector<std::uint32_t> members;
    for (const std::uint32_t i : all) {
      if (cohort[i].survey.elements > 1) members.push_back(i);
    }
    if (members.size() < kSiblings) continue;
    judge_shape(cohort, members, found);
    judge_dtype(cohort, members, found);
  }
}

}  // namespace espalier
