#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/health/apart.h"
#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

constexpr std::uint64_t kLeastToCompare = 32;
constexpr std::uint64_t kLeastForFewValues = 1024;
constexpr std::uint64_t kLeastOfRow = 8;
// So many times the bound is apart for vectors at both ends of a stack: first and last layers
// differ.
constexpr double kOfEnds = 3;
// Norms of matrices, as powers of ten: those of one place in many layers are close, except at the
// ends.
constexpr double kOfMatrices = 0.4;
constexpr double kOfCloseMatrices = 0.25;
// The share of siblings without a negative element that makes one an exception.
constexpr double kNearlyAllPositive = 0.9;

// Distances count so many times, the less siblings have in common.
double far_of(SiblingLevel level) {
  switch (level) {
    case SiblingLevel::kWord:
      return 1.3;
    case SiblingLevel::kShape:
      return 2;
    default:
      return 1;
  }
}

double power_of_ten(double power) { return std::pow(10, power); }
std::string percent(double share) { return rough(share * 100) + " %"; }

// The siblings of one group, and the figures by which they are compared.
class Figures {
 public:
  Figures(const Cohort& cohort, const SiblingGroup& group, Findings& found)
      : cohort_(cohort), group_(group), found_(found) {
    for (const std::uint32_t i : group.members) {
      const TensorSurvey& survey = cohort[i].survey;
      if (survey.is_judged() && survey.summary.finite == survey.elements && survey.rms > 0 &&
          std::isfinite(survey.rms) && survey.elements >= kLeastToCompare) {
        members_.push_back(i);
      }
    }
  }

  void judge() {
    if (members_.empty()) return;
    const TensorSurvey& usual = cohort_[members_.front()].survey;
    is_matrix_ = usual.view.rank >= 2;
    const bool is_plain = cohort_[members_.front()].role == Role::kPlain;
    const double far = far_of(group_.level);
    const double of_matrices =
        group_.level == SiblingLevel::kNumber ? kOfCloseMatrices : kOfMatrices;
    // Moments follow the size of gradients, which differs from layer to layer. Some are rounding
    // alone: softmax cancels the bias of keys, so its gradient is 0.
    const double least = !is_plain ? 3 : is_matrix_ ? of_matrices : 0.9;
    // Vectors of one shape, or of one module, are gains, biases and averages: none says how large
    // another is.
    const bool is_mixed = is_matrix_ ? is_beside_a_kind()
                                     : group_.level == SiblingLevel::kShape ||
                                           cohort_[members_.front()].kind.is_end_open;
    if (!is_mixed)
      compare(
          {HealthRule::kNorm, {least, 0.03, is_plain ? Side::kBoth : Side::kAbove, far}},
          [](const TensorSurvey& survey) { return std::log10(survey.rms); },
          [](const TensorSurvey& survey, const Apart& others, std::size_t count) {
            return "its root mean square is " + rough(survey.rms) + ", and those of " +
                   grouped(count) + " others of its kind are " +
                   range_text(power_of_ten(others.smallest), power_of_ten(others.largest));
          });
    leave_out([](const Examinee& tensor) { return tensor.is_skew; });
    if (!is_plain || members_.empty()) return;
    compare(
        {HealthRule::kSpike, {is_matrix_ ? 1.4 : 0.7, 0.1, Side::kAbove, 1}},
        [](const TensorSurvey& survey) { return std::log10(survey.largest() / survey.rms); },
        [](const TensorSurvey& survey, const Apart& others, std::size_t) {
          return "its largest magnitude is " + rough(survey.largest() / survey.rms) +
                 " times its root mean square, and at most " + rough(power_of_ten(others.largest)) +
                 " times in its kind";
        });
    leave_out([](const Examinee& tensor) { return tensor.survey.is_constant(); });
    if (members_.empty()) return;
    judge_elements();
    if (is_matrix_) judge_matrices(far);
    judge_signs();
  }

 private:
  // Whether siblings by shape are mostly of one kind: to that, the others do not belong, and theirs
  // is another size. lora_B of all layers has the shape of the one of an embedding.
  bool is_beside_a_kind() const {
    if (group_.level != SiblingLevel::kShape) return false;
    const auto of_kinds = std::count_if(members_.begin(), members_.end(), [&](std::uint32_t i) {
      return cohort_.siblings_of(cohort_[i]).level == SiblingLevel::kNumber;
    });
    return 2 * static_cast<std::size_t>(of_kinds) > members_.size();
  }

  struct Rule {
    HealthRule rule;
    ApartBounds bounds;
  };
  using Figure = std::function<double(const TensorSurvey&)>;
  using Words = std::function<std::string(const TensorSurvey&, const Apart&, std::size_t)>;

  template <class Is>
  void leave_out(Is is) {
    members_.erase(std::remove_if(members_.begin(), members_.end(),
                                  [&](std::uint32_t i) { return is(cohort_[i]); }),
                   members_.end());
  }

  void compare(const Rule& rule, const Figure& figure, const Words& words) {
    compare(rule, members_, figure, words);
  }

  void compare(Rule rule, const std::vector<std::uint32_t>& members, const Figure& figure,
               const Words& words) {
    std::vector<double> figures;
    figures.reserve(members.size());
    for (const std::uint32_t i : members) figures.push_back(figure(cohort_[i].survey));
    const auto apart = find_apart(figures, rule.bounds);
    if (!apart) return;
    const double of_ends = is_matrix_ ? kOfMatrices : rule.bounds.least * rule.bounds.far * kOfEnds;
    for (const std::size_t which : apart->which) {
      const std::uint32_t i = members[which];
      const bool is_at_end = i == group_.members.front() || i == group_.members.back();
      const bool is_note = is_at_end && std::abs(figures[which] - apart->middle) < of_ends;
      found_.add(rule.rule, is_note ? Severity::kNote : Severity::kWarning, cohort_[i].path,
                 words(cohort_[i].survey, *apart, members.size() - apart->which.size()));
    }
  }

  void judge_elements() {
    // Where purposes are mixed, some have no negative elements by their making; and masks have two
    // values.
    std::vector<std::uint32_t> signed_ones = members_;
    if (group_.level != SiblingLevel::kNumber) {
      signed_ones.erase(std::remove_if(signed_ones.begin(), signed_ones.end(),
                                       [&](std::uint32_t i) {
                                         return cohort_[i].survey.negative == 0 ||
                                                cohort_[i].survey.distinct <= 4;
                                       }),
                        signed_ones.end());
    }
    compare(
        {HealthRule::kSign, {is_matrix_ ? 0.6 : 1.2, 0.05, Side::kBoth, 1}}, signed_ones,
        [](const TensorSurvey& survey) { return survey.mean() / survey.rms; },
        [](const TensorSurvey& survey, const Apart& others, std::size_t) {
          return "its mean is " + rough(survey.mean() / survey.rms) +
                 " of its root mean square, and in its kind it is " +
                 range_text(others.smallest, others.largest);
        });
    constexpr double kLeastShare = 1e-3;
    std::vector<std::uint32_t> used = members_;
    if (group_.level == SiblingLevel::kShape) {
      used.erase(std::remove_if(used.begin(), used.end(),
                                [&](std::uint32_t i) { return cohort_[i].has_unused_rows; }),
                 used.end());
    }
    compare(
        {HealthRule::kZeros, {1, 0.1, Side::kAbove, 1}}, used,
        [](const TensorSurvey& survey) {
          return std::log10(static_cast<double>(survey.summary.zeros) /
                                static_cast<double>(survey.elements) +
                            kLeastShare);
        },
        [](const TensorSurvey& survey, const Apart& others, std::size_t) {
          return share_text(survey.summary.zeros, survey.elements, "is", "are") +
                 " zero, and at most " +
                 percent(std::max(0.0, power_of_ten(others.largest) - kLeastShare)) +
                 " in its kind";
        });
    if (cohort_[members_.front()].survey.elements < kLeastForFewValues) return;
    compare(
        {HealthRule::kFewValues, {0.6, 0.1, Side::kBelow, 1}},
        [](const TensorSurvey& survey) { return std::log10(static_cast<double>(survey.distinct)); },
        [](const TensorSurvey& survey, const Apart& others, std::size_t) {
          return "has " + grouped(survey.distinct) +
                 " different values, and the others of its kind have " +
                 grouped(static_cast<std::uint64_t>(std::llround(power_of_ten(others.smallest)))) +
                 " or more";
        });
    if (cohort_[members_.front()].survey.dtype != DType::kF32) return;
    compare(
        {HealthRule::kLowBits, {8, 0.5, Side::kAbove, 1}},
        [](const TensorSurvey& survey) { return static_cast<double>(survey.low_zero_bits); },
        [](const TensorSurvey& survey, const Apart&, std::size_t) {
          return "the last " + grouped(static_cast<std::uint64_t>(survey.low_zero_bits)) +
                 " bits of every element are 0: it was rounded, and its siblings were not";
        });
  }

  void judge_matrices(double far) {
    // The norm of a short row is a matter of chance.
    const bool has_long_rows = cohort_[members_.front()].survey.view.columns >= kLeastOfRow;
    if (has_long_rows)
      compare(
          {HealthRule::kUnevenRows, {0.25, 0.05, Side::kAbove, far}},
          [](const TensorSurvey& survey) {
            return survey.rows.spread > 0 ? std::log10(survey.rows.spread) : 0;
          },
          [](const TensorSurvey& survey, const Apart& others, std::size_t) {
            return "the norms of its rows differ by a factor of " + rough(survey.rows.spread) +
                   ", and by at most " + rough(power_of_ten(others.largest)) + " in its kind";
          });
    std::vector<std::uint32_t> sketched;
    for (const std::uint32_t i : members_) {
      if (cohort_[i].survey.weaker_half) sketched.push_back(i);
    }
    compare(
        {HealthRule::kLowRank, {2.5, 0.2, Side::kBelow, 1}}, sketched,
        [](const TensorSurvey& survey) { return *survey.weaker_half; },
        [](const TensorSurvey& survey, const Apart& others, std::size_t) {
          return "its rank is low: half of all directions have " +
                 rough(power_of_ten(*survey.weaker_half)) + " of its squares, and " +
                 rough(power_of_ten(others.smallest)) + " or more in its kind";
        });
  }

  // Some tensors have no negative elements by their making.
  void judge_signs() {
    const auto is_positive = [this](std::uint32_t i) { return cohort_[i].survey.negative == 0; };
    const auto positive =
        static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), is_positive));
    if (members_.size() < kSiblings || positive == members_.size() || !is_matrix_ ||
        static_cast<double>(positive) < kNearlyAllPositive * static_cast<double>(members_.size())) {
      return;
    }
    for (const std::uint32_t i : members_) {
      if (is_positive(i)) continue;
      const TensorSurvey& survey = cohort_[i].survey;
      found_.add(HealthRule::kNegative, Severity::kWarning, cohort_[i].path,
                 share_text(survey.negative, survey.elements, "is", "are") +
                     " negative, and none in " + grouped(positive) + " others of its kind");
    }
  }

  const Cohort& cohort_;
  const SiblingGroup& group_;
  Findings& found_;
  std::vector<std::uint32_t> members_;
  bool is_matrix_ = false;
};

}  // namespace

void judge_figures(const Cohort& cohort, Findings& found) {
  for (const SiblingGroup& group : cohort.groups()) {
    if (group.members.size() >= kSiblings) Figures(cohort, group, found).judge();
  }
}

}  // namespace espalier
