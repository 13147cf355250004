#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// Fewer elements are equal, zero or large by chance.
constexpr std::uint64_t kFewElements = 16;
// Values of a table, or of a mask.
constexpr std::uint64_t kValuesOfMask = 4;
constexpr std::uint64_t kValuesOfTable = 16;
// Of a mask, one of so many elements is -inf.
constexpr std::uint64_t kOneOfMask = 10;
// The share of the siblings that makes something usual, and that makes it an exception.
constexpr double kMostOfKind = 0.75;
constexpr double kFewOfKind = 0.25;
// Its square is beyond binary32.
constexpr double kEnormous = 1e30;
// An element of a matrix that has so many times the magnitude of all but a thousandth, and of the
// median; of a vector, of all but a tenth. Trained models have elements of a hundred deviations.
constexpr double kSpikeOfMost = 60;
constexpr double kSpikeOfMiddle = 200;
// Of a vector whose elements are alike, as random numbers are: nine of ten are at most so many
// times the middle.
constexpr double kMostOfEven = 3;
// Of a vector with no small elements: none but zeros is below this part of the median, and 99 of
// 100 are below so many times it.
constexpr std::uint64_t kLeastVector = 64;
constexpr double kLeastOfVector = 0.05;
constexpr double kMostOfVector = 8;
// Further zeros, one of so many elements, make a table, or a model that was pruned.
constexpr std::uint64_t kOneOfSparse = 20;
// Elements of a matrix whose dead rows tell something.
constexpr std::uint64_t kLeastMatrix = 1024;
constexpr std::uint64_t kLeastForValues = 4096;
// Dead rows inside that are no padding.
constexpr std::uint64_t kSomeDead = 4;
// Equal rows: fewer values are a table's.
constexpr std::uint64_t kValuesOfRows = 1024;
constexpr std::uint64_t kFewRows = 64;
// Runs of a tensor that was cut off; a table has more.
constexpr std::uint64_t kFewRuns = 4;
// Of narrow types, the share of elements at the limit that scaling does not explain.
constexpr double kManySaturated = 0.01;

class Alone {
 public:
  Alone(const Cohort& cohort, const Examinee& tensor, bool is_scaled, Findings& found)
      : cohort_(cohort),
        tensor_(tensor),
        survey_(tensor.survey),
        is_scaled_(is_scaled),
        has_siblings_(cohort.has_siblings(tensor)),
        found_(found) {}

  void judge() {
    judge_numbers();
    if (tensor_.role >= Role::kSquares && survey_.negative > 0) {
      add(HealthRule::kNegativeSquares, Severity::kFault,
          share_text(survey_.negative, survey_.elements, "is", "are") +
              " negative in an average of squares, the least is " +
              number_text(*survey_.summary.min));
    }
    if (!dtype_is_floating(survey_.dtype)) return;
    if (!survey_.is_constant()) judge_limits();
    if (survey_.elements < kFewElements) return;
    if (survey_.is_constant()) return judge_constant();
    if (!survey_.is_judged()) return;
    if (tensor_.role != Role::kPlain || tensor_.is_skew) return;
    if (survey_.denormal * 2 > survey_.elements) {
      add(HealthRule::kDenormal, Severity::kNote,
          share_text(survey_.denormal, survey_.elements, "is", "are") +
              " below the normal range of " + std::string(dtype_name(survey_.dtype)));
    }
    judge_runs();
    judge_zeros_in_vector();
    const bool has_spike = judge_spike();
    const bool is_of_few = survey_.distinct <= kValuesOfMask;
    if (survey_.view.rank < 2 || is_of_few || survey_.summary.finite < survey_.elements) return;
    if (survey_.elements >= kLeastForValues && survey_.distinct <= kValuesOfTable &&
        !has_siblings_ && !survey_.is_integral) {
      add(HealthRule::kFewValues, Severity::kNote,
          grouped(survey_.elements) + " elements have " + grouped(survey_.distinct) +
              " different values");
    }
    judge_dead();
    judge_equal_rows();
    if (has_spike) return;
    const SiblingGroup& group = cohort_.siblings_of(tensor_);
    judge_loud(survey_.rows, group.loudest_rows, HealthRule::kOutlierRows, "row");
    judge_loud(survey_.columns, group.loudest_columns, HealthRule::kOutlierColumns, "column");
  }

 private:
  void add(HealthRule rule, Severity severity, std::string text,
           std::optional<std::uint64_t> at = std::nullopt) {
    found_.add(rule, severity, tensor_.path, std::move(text), at);
  }

  double share(Trait trait) const { return cohort_.share(tensor_, trait); }

  // Siblings decide: what most have is how the model was made. Without siblings, `alone`.
  struct Verdict {
    Severity severity;
    std::string as_in;  // ", as in 12 of the 12 of its kind"
  };
  Verdict verdict(Severity alone, double of_kind) const {
    if (!has_siblings_) return {alone, {}};
    const SiblingGroup& group = cohort_.siblings_of(tensor_);
    if (of_kind >= kMostOfKind) {
      const auto all = static_cast<double>(group.members.size());
      return {Severity::kNote,
              ", as in " + grouped(static_cast<std::uint64_t>(std::llround(of_kind * all))) +
                  " of the " + grouped(group.members.size()) + " of its kind"};
    }
    const bool is_by_shape = group.level == SiblingLevel::kShape;
    return {is_by_shape ? alone : Severity::kWarning, {}};
  }

  // ", the first at [0, 5]", unless there is one element.
  std::string first_text(std::optional<std::uint64_t> at) const {
    if (survey_.elements == 1) return {};
    return ", the first at " + index_text(at.value_or(0), survey_.shape);
  }

  // -inf where nothing is seen. A single infinite one among zeros is an overflow.
  bool is_mask() const {
    const Summary& summary = survey_.summary;
    if (summary.nans > 0 || survey_.is_infinite_above || summary.infinities < 2) return false;
    const bool are_others_equal =
        !summary.min || to_double(*summary.min) == to_double(*summary.max);
    return are_others_equal || summary.infinities * kOneOfMask >= survey_.elements;
  }

  void judge_numbers() {
    const Summary& summary = survey_.summary;
    if (summary.nans > 0) {
      add(HealthRule::kNan, Severity::kFault,
          share_text(summary.nans, survey_.elements, "is", "are") + " NaN" +
              first_text(survey_.first_nan),
          survey_.first_nan);
    }
    if (summary.infinities == 0) return;
    if (summary.infinities == survey_.elements && survey_.view.rank < 2) {
      add(HealthRule::kInfinite, Severity::kNote,
          "all elements are infinite, as before anything is observed", survey_.first_infinite);
    } else if (!is_mask()) {
      add(HealthRule::kInfinite, Severity::kFault,
          share_text(summary.infinities, survey_.elements, "is", "are") + " infinite" +
              first_text(survey_.first_infinite),
          survey_.first_infinite);
    }
  }

  void judge_constant() {
    if (tensor_.role != Role::kPlain || !survey_.summary.max) return;
    const bool is_matrix = survey_.view.rank >= 2;
    const SiblingLevel level = cohort_.siblings_of(tensor_).level;
    if (!is_matrix && level != SiblingLevel::kNumber) return;
    if (is_matrix && level == SiblingLevel::kShape) return;
    // Zero among ones is as odd as zero among random numbers.
    const bool is_zero = survey_.is_zero();
    const double of_kind = share(is_zero ? Trait::kZero : Trait::kConstant);
    const bool is_rare = of_kind <= kFewOfKind;
    // A vector of ones or zeros is how many a layer begins.
    if (!is_matrix && !is_rare) return;
    const bool is_mistake = is_rare && has_siblings_;
    std::string text = "all " + grouped(survey_.elements) + " elements are ";
    text += is_zero ? "zero" : number_text(*survey_.summary.max);
    const SiblingGroup& group = cohort_.siblings_of(tensor_);
    const auto alike =
        group.counts[static_cast<std::size_t>(is_zero ? Trait::kZero : Trait::kConstant)];
    if (is_mistake) {
      text += ", and those of others of its kind are not";
    } else if (has_siblings_) {
      text +=
          ", as in " + grouped(alike) + " of the " + grouped(group.members.size()) + " of its kind";
    }
    add(is_zero ? HealthRule::kAllZero : HealthRule::kConstant,
        is_mistake ? Severity::kWarning : Severity::kNote, std::move(text));
  }

  void judge_limits() {
    const bool is_narrow = dtype_bits(survey_.dtype) <= 8;
    const double saturated =
        static_cast<double>(survey_.saturated) / static_cast<double>(survey_.elements);
    // With a scale for each group, the largest of each has the largest magnitude. Four bits have
    // too few magnitudes to tell.
    const bool is_usual =
        is_narrow ? is_scaled_ || saturated < kManySaturated || dtype_bits(survey_.dtype) <= 4
                  : survey_.distinct <= kValuesOfMask;
    if (survey_.saturated > 0 && !is_usual) {
      add(HealthRule::kSaturated, Severity::kWarning,
          share_text(survey_.saturated, survey_.elements, "has", "have") +
              " the largest magnitude of " + std::string(dtype_name(survey_.dtype)) +
              ": larger ones may have been cut off");
    } else if (survey_.is_judged() && survey_.largest() > kEnormous &&
               survey_.distinct > kValuesOfMask) {
      add(HealthRule::kEnormous, Severity::kWarning,
          "the largest magnitude is " + rough(survey_.largest()) +
              ", and its square is beyond f32");
    }
  }

  // The elements that are zero, and not in rows or columns of zeros.
  bool is_sparse() const {
    const std::uint64_t in_rows = survey_.rows.dead * survey_.view.columns;
    const std::uint64_t in_columns = survey_.columns.dead * survey_.view.rows;
    return survey_.summary.zeros > in_rows + in_columns + survey_.elements / kOneOfSparse;
  }

  void judge_runs() {
    const Runs& runs = survey_.runs;
    if (runs.count == 0 || survey_.distinct <= kValuesOfTable) return;
    // What a file was written in: rows, or larger blocks of trailing axes.
    const auto is_of_blocks = [&](std::uint64_t block) {
      return block >= kFewElements && runs.begin % block == 0 &&
             (runs.begin + runs.size) % block == 0;
    };
    bool is_whole = survey_.view.rank >= 2 && survey_.view.columns > 0 &&
                    runs.begin % survey_.view.columns == 0 &&
                    (runs.begin + runs.size) % survey_.view.columns == 0;
    std::uint64_t block = 1;
    for (std::size_t axis = survey_.shape.size(); axis-- > 1;) {
      block *= survey_.shape[axis];
      is_whole = is_whole || is_of_blocks(block);
    }
    const bool is_torn = !is_whole && survey_.view.rank >= 2 && runs.count <= kFewRuns;
    const bool is_rare = has_siblings_ &&
                         cohort_.siblings_of(tensor_).level == SiblingLevel::kNumber &&
                         share(Trait::kRuns) <= kFewOfKind;
    if (!is_rare &&
        (!is_torn || survey_.summary.zeros > runs.elements + survey_.elements / kOneOfSparse)) {
      return;
    }
    add(HealthRule::kRun, Severity::kWarning,
        grouped(runs.size) + " successive elements (" +
            grouped(runs.size * (dtype_bits(survey_.dtype) / 8)) + " bytes) are " +
            (runs.is_zero ? "0" : "the same") + ", from " + index_text(runs.begin, survey_.shape) +
            " to " + index_text(runs.begin + runs.size - 1, survey_.shape) +
            (is_whole ? "" : ": not whole rows"),
        runs.begin);
  }

  void judge_zeros_in_vector() {
    const std::uint64_t zeros = survey_.summary.zeros;
    if (survey_.view.rank != 1 || survey_.elements < kLeastVector || zeros == 0 ||
        zeros > survey_.elements / 2 || survey_.distinct <= kValuesOfMask || survey_.is_integral ||
        !(survey_.median_size > 0) || survey_.least_size <= survey_.median_size * kLeastOfVector ||
        survey_.size_99 >= survey_.median_size * kMostOfVector) {
      return;
    }
    if (share(Trait::kZeros) > 0.5) return;
    add(HealthRule::kZerosInVector, Severity::kWarning,
        share_text(zeros, survey_.elements, "is", "are") + " 0, and no other is nearer to 0 than " +
            rough(survey_.least_size));
  }

  // A few elements that are far beyond all others; rows, columns and norms then stand out by them.
  bool judge_spike() {
    const bool is_matrix = survey_.view.rank >= 2;
    // Most elements of a sparse vector say nothing of the others.
    if (!is_matrix && survey_.median_size * kMostOfEven < survey_.size_90) return false;
    if (survey_.distinct <= kValuesOfMask) return false;
    const double usual =
        is_matrix ? std::max(survey_.size_999 * kSpikeOfMost, survey_.median_size * kSpikeOfMiddle)
                  : survey_.size_90 * kSpikeOfMiddle;
    const double largest = survey_.largest();
    if (!(usual > 0) || largest < usual) return false;
    add(HealthRule::kOutlierElements, Severity::kWarning,
        "the largest magnitude is " + rough(largest) + ", and " +
            (is_matrix ? "999 of 1,000 are at most " + rough(survey_.size_999)
                       : "nine of ten are at most " + rough(survey_.size_90)));
    return true;
  }

  void judge_dead() {
    if (survey_.elements < kLeastMatrix) return;
    const auto judge = [&](const Channels& channels, Trait trait, HealthRule rule, bool is_padding,
                           const char* name) {
      if (channels.dead == 0 || channels.dead == channels.count) return;
      const bool is_usual = is_padding || is_sparse() || channels.dead * 2 > channels.count;
      const Verdict found = verdict(is_usual ? Severity::kNote : Severity::kWarning, share(trait));
      add(rule, channels.dead == 1 ? Severity::kNote : found.severity,
          grouped(channels.dead) + " of " + grouped(channels.count) + " " + name +
              (channels.dead == 1 ? "s is zero: number " : "s are zero, the first is number ") +
              grouped(channels.first_dead) + found.as_in,
          channels.first_dead);
    };
    judge(survey_.rows, Trait::kDeadRows, HealthRule::kDeadRows,
          survey_.rows.dead_inside < kSomeDead || tensor_.has_unused_rows, "row");
    judge(survey_.columns, Trait::kDeadColumns, HealthRule::kDeadColumns,
          survey_.columns.dead < kSomeDead || survey_.columns.dead == survey_.columns.dead_at_end,
          "column");
  }

  void judge_equal_rows() {
    const EqualRows& rows = survey_.equal_rows;
    if (rows.repeated == 0 || survey_.distinct <= std::min(kValuesOfRows, survey_.elements / 4)) {
      return;
    }
    const std::uint64_t count = survey_.view.rows;
    const bool is_usual = rows.are_at_end ||
                          rows.repeated < std::max<std::uint64_t>(3, count / 100) ||
                          (rows.repeated * 2 > count && count < kFewRows);
    const Verdict found =
        verdict(is_usual ? Severity::kNote : Severity::kWarning, share(Trait::kEqualRows));
    add(HealthRule::kEqualRows, found.severity,
        grouped(rows.repeated + 1) + " of " + grouped(count) +
            " rows are the same as others, the first is number " + grouped(rows.first) +
            found.as_in,
        rows.first);
  }

  void judge_loud(const Channels& channels, const std::vector<double>& loudest, HealthRule rule,
                  const char* name) {
    const auto& loud = has_siblings_ ? channels.loud : channels.loud_alone;
    if (!loud) return;
    // Those whose loudest is at least half as far from the median.
    const auto others =
        loudest.end() - std::upper_bound(loudest.begin(), loudest.end(), std::sqrt(loud->ratio));
    const auto all = static_cast<double>(cohort_.siblings_of(tensor_).members.size());
    const Verdict found = verdict(Severity::kWarning, static_cast<double>(others) / all);
    std::string text;
    if (loud->count == 1) {
      text = std::string(name) + " " + grouped(loud->first) + " has " + rough(loud->ratio) +
             " times the norm of the median " + name;
    } else {
      text = grouped(loud->count) + " " + name + "s have " + rough(loud->ratio) +
             " times the norm of the median " + name + " or more, the loudest is number " +
             grouped(loud->first);
    }
    add(rule, found.severity, text + found.as_in, loud->first);
  }

  const Cohort& cohort_;
  const Examinee& tensor_;
  const TensorSurvey& survey_;
  const bool is_scaled_;
  const bool has_siblings_;
  Findings& found_;
};

}  // namespace

void judge_alone(const Cohort& cohort, const std::set<std::string, std::less<>>& scaled,
                 Findings& found) {
  for (const Examinee& tensor : cohort.tensors()) {
    const std::string_view path = tensor.name;
    const std::string_view container = path.substr(0, path.size() - last_segment(path).size());
    Alone(cohort, tensor, scaled.count(container) > 0, found).judge();
  }
}

}  // namespace espalier
