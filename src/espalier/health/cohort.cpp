#include "espalier/health/cohort.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

// Figures of fewer elements say little of how they are spread.
constexpr std::uint64_t kLeastForSkew = 64;
// Of numbers that are not negative: the 99th of a hundred is so many times the middle.
constexpr double kSkew = 4;
// More different values than a table of a few has.
constexpr std::uint64_t kValuesOfRelation = 16;
// Segments of a path that may differ between two moments of one parameter.
constexpr std::size_t kMostSegments = 16;
// Tensors that differ in one segment, and are still moments of one parameter.
constexpr std::size_t kMostMoments = 4;
// Of squares, one of so many elements may be negative, for that is a fault; of averages of
// gradients, one of so many is.
constexpr std::uint64_t kFewNegative = 50;
constexpr std::uint64_t kSomeNegative = 20;
// An average of gradients squared is at most the average of their squares, but for the different
// times that the two look back: with Adam's rates of decay, no more than this.
constexpr double kMostOfSquares = 100;

bool is_small_mostly(const TensorSurvey& survey) {
  return survey.median_size < survey.size_99 / kSkew;
}

double sum_of(const TensorSurvey& survey) {
  return survey.mean() * static_cast<double>(survey.summary.finite);
}

bool looks_like_squares(const TensorSurvey& survey) {
  return survey.elements >= kLeastForSkew && survey.negative * kFewNegative <= survey.elements &&
         is_small_mostly(survey) && survey.distinct > kValuesOfRelation;
}

// Pairs of a hash and a number, one after the other by hash.
using Hashed = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

// Calls `visit` with the numbers of each hash.
template <class Visit>
void for_each_group(const Hashed& hashed, Visit visit) {
  std::vector<std::uint32_t> members;
  for (std::size_t i = 0; i < hashed.size();) {
    members.clear();
    const std::uint64_t hash = hashed[i].first;
    for (; i < hashed.size() && hashed[i].first == hash; ++i) members.push_back(hashed[i].second);
    visit(std::as_const(members));
  }
}

// What tensors have in common that are of one shape, and whose paths differ in one segment.
Hashed by_all_but_one_segment(std::span<const Examinee> tensors) {
  Hashed hashed;
  std::string buffer;
  const auto append = [&](std::uint64_t number) {
    std::byte bytes[sizeof number];
    store_le(bytes, number);
    for (const std::byte byte : bytes) buffer += static_cast<char>(byte);
  };
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const TensorSurvey& survey = tensors[i].survey;
    if (!survey.is_judged() || survey.elements < 2) continue;
    std::size_t number = 0;
    const std::string_view path = tensors[i].name;
    for_each_segment(path, [&](std::string_view segment) {
      if (number++ >= kMostSegments) return;
      const auto begin = static_cast<std::size_t>(segment.data() - path.data());
      buffer.clear();
      append(number);
      for (const std::uint64_t axis : survey.shape) append(axis);
      buffer += path.substr(0, begin);
      buffer += '\xff';  // in no UTF-8
      buffer += path.substr(begin + segment.size());
      hashed.emplace_back(hash64(as_bytes(buffer)), i);
    });
  }
  std::sort(hashed.begin(), hashed.end());
  return hashed;
}

// A run of rows inside is rather a part that was not written.
bool are_one_run_inside(const Channels& rows) {
  if (rows.first_dead == 0 || rows.dead_at_end > 0) return false;
  for (std::uint64_t row = rows.first_dead; row < rows.first_dead + rows.dead; ++row) {
    if ((rows.live[static_cast<std::size_t>(row / 64)] >> (row % 64) & 1) != 0) return false;
  }
  return true;
}

bool has_trait(const TensorSurvey& survey, Trait trait) {
  switch (trait) {
    case Trait::kZero:
      return survey.is_zero();
    case Trait::kConstant:
      return survey.is_constant();
    case Trait::kRuns:
      return survey.runs.count > 0;
    case Trait::kZeros:
      return survey.summary.zeros > 0;
    case Trait::kDeadRows:
      return survey.rows.dead > 0;
    case Trait::kDeadColumns:
      return survey.columns.dead > 0;
    default:
      return survey.equal_rows.repeated > 0;
  }
}

}  // namespace

Cohort::Cohort(std::vector<Examinee> tensors) : tensors_(std::move(tensors)) {
  std::vector<std::string_view> paths;
  paths.reserve(tensors_.size());
  for (const Examinee& tensor : tensors_) paths.emplace_back(tensor.name);
  const std::vector<PathKind> kinds = find_kinds(paths);
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    Examinee& tensor = tensors_[i];
    const TensorSurvey& survey = tensor.survey;
    tensor.kind = kinds[i];
    tensor.role = role_of(tensor.name);
    tensor.is_skew = survey.is_judged() && survey.elements >= kLeastForSkew &&
                     survey.negative == 0 && is_small_mostly(survey) &&
                     survey.distinct > kValuesOfRelation;
    kinds_[tensor.kind.id].push_back(i);
  }
  find_roles();
  find_siblings();
  count_traits();
  find_unused_rows();
}

// Moments without names: one of two has no negative element and is skew, the other has both signs.
// The whole kind must look so, or the gain and the bias of a normalisation were a pair.
void Cohort::find_roles() {
  const Hashed hashed = by_all_but_one_segment(tensors_);
  using Kinds = std::pair<std::uint64_t, std::uint64_t>;  // of squares, and of the first moment
  struct Votes {
    std::uint32_t first = 0;  // the first tensor of squares
    std::size_t count = 0;
    bool is_by_word = false;
  };
  std::map<Kinds, Votes> votes;
  for_each_group(hashed, [&](const std::vector<std::uint32_t>& group) {
    if (group.size() < 2 || group.size() > kMostMoments) return;
    for (const std::uint32_t v : group) {
      const Examinee& squares = tensors_[v];
      if (squares.role < Role::kSquares && !looks_like_squares(squares.survey)) continue;
      for (const std::uint32_t m : group) {
        const Examinee& first = tensors_[m];
        const TensorSurvey& survey = first.survey;
        // A gain and a bias stand beside a variance, too.
        if (squares.role == Role::kVariance && !is_mean_name(first.name)) continue;
        if (m == v || first.kind == squares.kind ||
            survey.negative * kSomeNegative <= survey.elements) {
          continue;
        }
        const double sum = survey.rms * survey.rms * static_cast<double>(survey.summary.finite);
        if (sum > kMostOfSquares * std::abs(sum_of(squares.survey))) continue;
        Votes& of = votes[{squares.kind.id, first.kind.id}];
        of.first = of.count == 0 ? v : std::min(of.first, v);
        ++of.count;
        of.is_by_word = squares.kind.is_by_word || first.kind.is_by_word;
      }
    }
  });
  std::vector<std::pair<std::uint32_t, Kinds>> order;
  for (const auto& [kinds, of] : votes) {
    if (!of.is_by_word) order.emplace_back(of.first, kinds);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [v, kinds] : order) {
    const auto& members = kinds_.at(kinds.first);
    const auto large = std::count_if(members.begin(), members.end(), [this](std::uint32_t i) {
      return tensors_[i].survey.elements >= kLeastForSkew;
    });
    const std::size_t count = votes.at(kinds).count;
    const bool is_of_kind = count >= 2 && 2 * count >= static_cast<std::size_t>(large);
    if (!is_of_kind && tensors_[v].role < Role::kSquares) continue;
    for (const std::uint32_t i : members) {
      tensors_[i].role = std::max(tensors_[i].role, Role::kSquares);
    }
    for (const std::uint32_t i : kinds_.at(kinds.second)) {
      if (tensors_[i].role == Role::kPlain) tensors_[i].role = Role::kFirst;
    }
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for_each_group(hashed, [&](const std::vector<std::uint32_t>& group) {
    if (group.size() > kMostMoments) return;
    for (const std::uint32_t v : group) {
      for (const std::uint32_t m : group) {
        if (tensors_[v].role >= Role::kSquares && tensors_[m].role == Role::kFirst) {
          seen.emplace(m, v);
        }
      }
    }
  });
  for (const auto& [m, v] : seen) moments_.push_back({v, m});
}

void Cohort::find_siblings() {
  using Shape = std::vector<std::uint64_t>;
  std::map<std::pair<std::uint64_t, Shape>, std::vector<std::uint32_t>> by_kind;
  std::map<std::tuple<Shape, DType, Role>, std::vector<std::uint32_t>> by_shape;
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    const Examinee& tensor = tensors_[i];
    by_kind[{tensor.kind.id, tensor.survey.shape}].push_back(i);
    by_shape[{tensor.survey.shape, tensor.survey.dtype, tensor.role}].push_back(i);
  }
  std::map<std::tuple<Shape, DType, Role>, std::uint32_t> groups_of_shape;
  const auto add = [this](SiblingLevel level, std::vector<std::uint32_t> members) {
    SiblingGroup& group = groups_.emplace_back();
    group.level = level;
    group.members = std::move(members);
    return static_cast<std::uint32_t>(groups_.size() - 1);
  };
  for (auto& [key, members] : by_kind) {
    const bool is_by_word = tensors_[members.front()].kind.is_by_word;
    if (members.size() >= kSiblings) {
      const auto level = is_by_word ? SiblingLevel::kWord : SiblingLevel::kNumber;
      const std::uint32_t group = add(level, members);
      for (const std::uint32_t i : members) tensors_[i].group = group;
      continue;
    }
    for (const std::uint32_t i : members) {
      const TensorSurvey& survey = tensors_[i].survey;
      const std::tuple shape = {survey.shape, survey.dtype, tensors_[i].role};
      const auto& alike = by_shape.at(shape);
      if (alike.size() < kLeastOfShape || survey.view.rank == 0) {
        tensors_[i].group = add(SiblingLevel::kNone, members);
        continue;
      }
      const auto [at, is_new] = groups_of_shape.try_emplace(shape, 0);
      if (is_new) at->second = add(SiblingLevel::kShape, alike);
      tensors_[i].group = at->second;
    }
  }
}

void Cohort::count_traits() {
  for (SiblingGroup& group : groups_) {
    for (const std::uint32_t i : group.members) {
      const TensorSurvey& survey = tensors_[i].survey;
      for (std::size_t trait = 0; trait < kTraits; ++trait) {
        group.counts[trait] += has_trait(survey, static_cast<Trait>(trait)) ? 1 : 0;
      }
      if (group.members.size() < kSiblings || survey.is_constant() || survey.view.rank < 2) {
        continue;
      }
      group.loudest_rows.push_back(survey.rows.greatest);
      group.loudest_columns.push_back(survey.columns.greatest);
    }
    std::sort(group.loudest_rows.begin(), group.loudest_rows.end());
    std::sort(group.loudest_columns.begin(), group.loudest_columns.end());
  }
}

void Cohort::find_unused_rows() {
  Hashed hashed;
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    const Channels& rows = tensors_[i].survey.rows;
    if (rows.live.empty() || are_one_run_inside(rows)) continue;
    hashed.emplace_back(hash64(std::as_bytes(std::span(rows.live))) ^ rows.count, i);
  }
  std::sort(hashed.begin(), hashed.end());
  for_each_group(hashed, [&](const std::vector<std::uint32_t>& group) {
    const Hash128& first = tensors_[group.front()].survey.hash;
    const bool are_copies = std::all_of(group.begin(), group.end(), [&](std::uint32_t i) {
      return tensors_[i].survey.hash == first;
    });
    for (const std::uint32_t i : group) tensors_[i].has_unused_rows = !are_copies;
  });
}

}  // namespace espalier
