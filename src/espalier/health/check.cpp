#include "espalier/health/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "espalier/codec/hash.h"
#include "espalier/health/wording.h"

namespace espalier {
namespace {

// What a finding explains of its tensor: those are not told beside it.
struct Explains {
  HealthRule cause;
  std::initializer_list<HealthRule> effects;
};
std::span<const Explains> explanations() {
  using enum HealthRule;
  static const Explains kAll[] = {
      {kConstant, {kNorm}},
      {kNan, {kFewValues, kDenormal}},
      {kRun,
       {kDeadRows, kDeadColumns, kEqualRows, kZeros, kFewValues, kUnevenRows, kLowRank, kNorm,
        kSign, kSpike}},
      {kDeadRows, {kZeros, kUnevenRows, kLowRank, kNorm, kSpike}},
      {kDeadColumns, {kZeros, kUnevenRows, kLowRank, kNorm, kSpike}},
      {kEqualRows, {kLowRank, kRepeated, kFewValues}},
      {kFewValues, {kZeros, kLowBits, kEqualRows}},
      {kZeros, {kUnevenRows, kNorm, kSpike, kSign, kLowRank}},
      {kSpike, {kNorm}},
      {kSaturated, {kOutlierElements, kSpike, kNorm, kUnevenRows}},
      {kEnormous, {kOutlierElements, kSpike, kNorm, kUnevenRows, kLowRank}},
      {kOutlierElements, {kSpike, kOutlierRows, kOutlierColumns, kUnevenRows, kNorm, kLowRank}},
      {kOutlierRows, {kSpike, kUnevenRows, kNorm, kLowRank}},
      {kOutlierColumns, {kSpike, kUnevenRows, kNorm, kLowRank}},
      {kUnevenRows, {kNorm, kSpike}},
      {kMoments, {kNorm}},
      {kZeroMoments, {kMoments}},
      {kNegativeSquares, {kMoments, kSign}},
      {kEqualTensors, {kRepeated}},
  };
  return kAll;
}

// One finding of each rule and tensor, the worst, and none that another explains that is as bad.
std::vector<Finding> without_effects(std::vector<Finding> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  std::map<std::pair<std::string, HealthRule>, Severity> worst;
  std::vector<Finding> once;
  for (Finding& finding : all) {
    if (worst.try_emplace({finding.path, finding.rule}, finding.severity).second) {
      once.push_back(std::move(finding));
    }
  }
  const auto is_explained = [&](const Finding& finding) {
    const auto all_causes = explanations();
    return std::any_of(all_causes.begin(), all_causes.end(), [&](const Explains& rule) {
      const auto cause = worst.find({finding.path, rule.cause});
      return cause != worst.end() && cause->second >= finding.severity &&
             std::find(rule.effects.begin(), rule.effects.end(), finding.rule) !=
                 rule.effects.end();
    });
  };
  once.erase(std::remove_if(once.begin(), once.end(), is_explained), once.end());
  return once;
}

}  // namespace

// Keeps the beginning and the end of a long path, cut between characters. Its hash is in the
// middle: findings of two paths that differ there alone would count as one.
std::string HealthCheck::shown_path(std::string_view path) {
  if (path.size() <= kMostPathBytes) return std::string(path);
  const std::string hash = to_hex(hash128(as_bytes(path)));
  const std::string cut = "[...#" + hash.substr(0, 16) + "]";
  const auto continues = [&](std::size_t at) { return (path[at] & '\xc0') == '\x80'; };
  std::size_t head = (kMostPathBytes - cut.size()) / 2;
  std::size_t tail = path.size() - head;
  while (head > 0 && continues(head)) --head;
  while (tail < path.size() && continues(tail)) ++tail;
  std::string text(path.substr(0, head));
  text += cut;
  text += path.substr(tail);
  return text;
}

void HealthCheck::add(std::uint64_t number, std::string_view path, TensorSurvey survey) {
  Examinee examinee;
  examinee.path = shown_path(path);
  examinee.name = unescaped(examinee.path);
  if (is_scale_name(examinee.name)) {
    const std::size_t end = examinee.name.size() - last_segment(examinee.name).size();
    scaled_.insert(examinee.name.substr(0, end));
  }
  examinee.survey = std::move(survey);
  // A path that was cut has other places.
  const bool is_whole = examinee.path == path;
  add_layer_parts(
      path, is_whole ? static_cast<std::uint32_t>(tensors_.size()) : LayerPart::kNoTensor, parts_);
  anchors_ += examinee.survey.anchors.size();
  tensors_.push_back({number, std::move(examinee)});
  while (anchors_ > kMostAnchors) thin_anchors();
}

// By hash, so that the same bytes keep the same anchors.
void HealthCheck::thin_anchors() {
  ++thinned_;
  anchors_ = 0;
  for (Tensor& tensor : tensors_) {
    auto& anchors = tensor.examinee.survey.anchors;
    anchors.erase(std::remove_if(
                      anchors.begin(), anchors.end(),
                      [this](const Anchor& anchor) { return anchor.hash >> (64 - thinned_) != 0; }),
                  anchors.end());
    anchors.shrink_to_fit();
    anchors_ += anchors.size();
  }
}

void HealthCheck::add_unreadable(std::string_view path, std::string reason) {
  unreadable_.push_back({shown_path(path), std::move(reason)});
  add_present(path);
}

void HealthCheck::add_number(std::string_view path, double value) {
  add_present(path);
  // A hostile file has many of both.
  if (std::isnan(value)) {
    if (nan_numbers_.size() == kMostNumbers) {
      ++further_nans_;
    } else {
      nan_numbers_.push_back(shown_path(path));
    }
  } else if (is_step_name(path) && counters_.size() < kMostNumbers) {
    counters_.push_back({shown_path(path), value});
  }
}

void HealthCheck::add_present(std::string_view path) {
  add_layer_parts(path, LayerPart::kNoTensor, parts_);
}

void HealthCheck::sort_tensors() {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) numbers.push_back(tensor.number);
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.number < b.number; });
  for (LayerPart& part : parts_) {
    if (part.tensor == LayerPart::kNoTensor) continue;
    const auto at = std::lower_bound(
        tensors_.begin(), tensors_.end(), numbers[part.tensor],
        [](const Tensor& tensor, std::uint64_t number) { return tensor.number < number; });
    part.tensor = static_cast<std::uint32_t>(at - tensors_.begin());
  }
}

std::vector<Finding> HealthCheck::findings() {
  Findings found;
  for (const auto& [path, reason] : unreadable_) {
    found.add(HealthRule::kUnreadable, Severity::kFault, path, "cannot be read: " + reason);
  }
  for (const std::string& path : nan_numbers_) {
    const bool is_last = &path == &nan_numbers_.back();
    found.add(HealthRule::kNan, Severity::kWarning, path,
              is_last && further_nans_ > 0
                  ? "is NaN, and so are " + grouped(further_nans_) + " further numbers"
                  : "is NaN");
  }
  // Anchors of a tensor that came after the last thinning are as few only now.
  if (thinned_ > 0) {
    --thinned_;
    thin_anchors();
  }
  sort_tensors();
  std::vector<Examinee> examinees;
  examinees.reserve(tensors_.size());
  for (Tensor& tensor : tensors_) examinees.push_back(std::move(tensor.examinee));
  tensors_.clear();
  const Cohort cohort(std::move(examinees));
  alone_ = static_cast<std::uint64_t>(
      std::count_if(cohort.tensors().begin(), cohort.tensors().end(), [&](const Examinee& tensor) {
        return tensor.survey.is_judged() && tensor.survey.view.is_matrix() &&
               !cohort.has_siblings(tensor);
      }));
  judge_alone(cohort, scaled_, found);
  judge_figures(cohort, found);
  judge_shapes(cohort, found);
  judge_missing(cohort, std::move(parts_), found);
  judge_copies(cohort, found);
  judge_repeats(cohort, found);
  for (const Examinee& tensor : cohort.tensors()) {
    const Summary& summary = tensor.survey.summary;
    if (tensor.survey.elements == 1 && summary.max) {
      counters_.push_back({tensor.path, to_double(*summary.max)});
    }
  }
  judge_moments(cohort, counters_, found);
  judge_steps(counters_, found);
  std::map<std::string_view, std::size_t> order;
  for (const Examinee& tensor : cohort.tensors()) order.try_emplace(tensor.path, order.size());
  const auto place = [&](const Finding& finding) {
    const auto at = order.find(finding.path);
    return at == order.end() ? order.size() : at->second;
  };
  std::vector<Finding> findings = without_effects(found.take());
  std::stable_sort(findings.begin(), findings.end(), [&](const Finding& a, const Finding& b) {
    return std::tuple(b.severity, a.rule, place(a)) < std::tuple(a.severity, b.rule, place(b));
  });
  return findings;
}

}  // namespace espalier
