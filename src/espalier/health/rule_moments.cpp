#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/health/apart.h"
#include "espalier/health/rules.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// The root of the squares of a first moment over its second moment, as a power of ten: beyond the
// first in none if nearly all are below the second. Momentum of updates is not bounded so.
constexpr double kMostRatio = 1.2;
constexpr double kUsualRatio = 0.9;
constexpr double kNearlyAllRatios = 0.75;
constexpr std::uint64_t kLeastOfMoment = 256;
// Of all moments, one of so many is zero by a mistake.
constexpr std::size_t kOneOfZeros = 10;

struct Ratio {
  std::uint32_t first = 0;
  std::uint32_t squares = 0;
  double power = 0;
};

double squares_of(const TensorSurvey& survey) {
  return survey.rms * survey.rms * static_cast<double>(survey.summary.finite);
}
double sum_of_squares(const TensorSurvey& survey) {
  return survey.mean() * static_cast<double>(survey.summary.finite);
}
bool is_all_zero(const TensorSurvey& survey) { return survey.elements > 0 && survey.is_zero(); }

// Rows that are live in the first and dead in the second, if both have as many.
std::uint64_t rows_without(const Channels& first, const Channels& second) {
  if (first.count != second.count || second.dead == 0) return 0;
  // Without bits all are live, or none.
  if (first.dead == first.count) return 0;
  if (first.live.empty()) return second.dead;
  if (second.live.empty()) return first.count - first.dead;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < first.live.size(); ++i) {
    count += static_cast<std::uint64_t>(std::popcount(first.live[i] & ~second.live[i]));
  }
  return count;
}

void judge_pair(const Examinee& squares, const Examinee& first, std::vector<Ratio>& ratios,
                const MomentPair& pair, Findings& found) {
  const double sum = sum_of_squares(squares.survey);
  const double of_first = squares_of(first.survey);
  if (sum > 0 && of_first > 0) {
    ratios.push_back({pair.first, pair.squares, 0.5 * std::log10(of_first / sum)});
    const std::uint64_t rows = rows_without(first.survey.rows, squares.survey.rows);
    if (rows > 0) {
      found.add(HealthRule::kMoments, Severity::kWarning, squares.path,
                grouped(rows) + (rows == 1 ? " row is" : " rows are") +
                    " zero, and not so in its first moment,",
                std::nullopt, first.path);
    }
  } else if (of_first > 0 && is_all_zero(squares.survey)) {
    found.add(HealthRule::kMoments, Severity::kWarning, squares.path,
              "all elements are zero, and not so in its first moment,", std::nullopt, first.path);
  }
}

void judge_ratios(const Cohort& cohort, const std::vector<Ratio>& ratios, Findings& found) {
  const auto usual = static_cast<std::size_t>(std::count_if(
      ratios.begin(), ratios.end(), [](const Ratio& ratio) { return ratio.power < kUsualRatio; }));
  const bool are_bounded =
      static_cast<double>(usual) >= kNearlyAllRatios * static_cast<double>(ratios.size());
  std::vector<Ratio> large;
  std::vector<double> powers;
  for (const Ratio& ratio : ratios) {
    if (ratio.power > kMostRatio && are_bounded) {
      found.add(HealthRule::kMoments, Severity::kWarning, cohort[ratio.first].path,
                "its norm is " + rough(std::pow(10, ratio.power)) +
                    " times the root of the sum of its second moment",
                std::nullopt, cohort[ratio.squares].path);
    }
    if (cohort[ratio.first].survey.elements < kLeastOfMoment) continue;
    large.push_back(ratio);
    powers.push_back(ratio.power);
  }
  const auto apart = find_apart(powers, {1, 0.15, Side::kBoth, 1});
  if (!apart) return;
  for (const std::size_t which : apart->which) {
    found.add(HealthRule::kMoments, Severity::kWarning, cohort[large[which].first].path,
              "its norm is " + rough(std::pow(10, powers[which])) +
                  " times, and in other parameters " +
                  range_text(std::pow(10, apart->smallest), std::pow(10, apart->largest)) +
                  " times, the root of the sum of its second moment",
              std::nullopt, cohort[large[which].squares].path);
  }
}

// A number of steps of the same optimizer that is not 0: it begins as the moments do.
const Counter* counter_beside(const Examinee& moment, const std::vector<Counter>& counters) {
  const std::string_view path = moment.path;
  const std::size_t end = path.find_first_of("/.");
  if (end == std::string_view::npos) return nullptr;
  const auto is_beside = [&](const Counter& counter) {
    return counter.value > 0 && is_step_name(counter.path) &&
           std::string_view(counter.path).starts_with(path.substr(0, end + 1));
  };
  const auto found = std::find_if(counters.begin(), counters.end(), is_beside);
  return found == counters.end() ? nullptr : &*found;
}

}  // namespace

void judge_moments(const Cohort& cohort, const std::vector<Counter>& counters, Findings& found) {
  std::vector<Ratio> ratios;
  std::set<std::uint32_t> beside_others;  // zeros whose partner is not
  for (const MomentPair& pair : cohort.moments()) {
    const auto [v, m] = pair;
    judge_pair(cohort[v], cohort[m], ratios, pair, found);
    const bool is_v_zero = is_all_zero(cohort[v].survey);
    const bool is_m_zero = is_all_zero(cohort[m].survey);
    if (is_v_zero && !is_m_zero) beside_others.insert(v);
    if (is_m_zero && !is_v_zero) beside_others.insert(m);
  }
  judge_ratios(cohort, ratios, found);
  std::size_t moments = 0;
  std::vector<std::uint32_t> zeros;
  for (std::uint32_t i = 0; i < cohort.tensors().size(); ++i) {
    const Examinee& tensor = cohort[i];
    if (tensor.role == Role::kPlain || tensor.survey.elements < 2) continue;
    ++moments;
    if (is_all_zero(tensor.survey)) zeros.push_back(i);
  }
  if (zeros.empty()) return;
  if (zeros.size() == moments) {
    const Counter* const counter = counter_beside(cohort[zeros.front()], counters);
    if (counter != nullptr) {
      found.add(HealthRule::kZeroMoments, Severity::kWarning, cohort[zeros.front()].path,
                "all " + grouped(moments) + " moments are zero, and " +
                    number_text(counter->value) + " steps are counted in",
                std::nullopt, counter->path);
      return;
    }
    found.add(HealthRule::kZeroMoments, Severity::kNote, cohort[zeros.front()].path,
              "all " + grouped(moments) + " moments are zero: the optimizer has made no step");
    return;
  }
  for (const std::uint32_t i : zeros) {
    if (zeros.size() > moments / kOneOfZeros && beside_others.count(i) == 0) continue;
    found.add(HealthRule::kZeroMoments, Severity::kWarning, cohort[i].path,
              "all " + grouped(cohort[i].survey.elements) +
                  " elements are zero, and other moments are not");
  }
}

}  // namespace espalier
