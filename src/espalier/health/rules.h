// The rules: each looks at the tensors of a checkpoint and adds what it finds.
#ifndef ESPALIER_HEALTH_RULES_H_
#define ESPALIER_HEALTH_RULES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/health/cohort.h"
#include "espalier/health/finding.h"
#include "espalier/health/layers.h"

namespace espalier {

/// Findings, in the order in which they were found.
class Findings {
 public:
  void add(HealthRule rule, Severity severity, std::string_view path, std::string text,
           std::optional<std::uint64_t> at = std::nullopt, std::string_view other = {}) {
    all_.push_back({rule, severity, std::string(path), std::string(other), std::move(text), at});
  }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

/// A number of the tree that may count steps, or a tensor of one element.
struct Counter {
  std::string path;
  double value = 0;
};

/// What each tensor's own elements, rows and columns show. Where siblings can tell whether that is
/// usual, they decide. `scaled` has the containers in which scales stand beside what they scale.
void judge_alone(const Cohort& cohort, const std::set<std::string, std::less<>>& scaled,
                 Findings& found);
/// Figures by which a few tensors lie apart from their siblings.
void judge_figures(const Cohort& cohort, Findings& found);
/// Shapes and dtypes that few of a kind have.
void judge_shapes(const Cohort& cohort, Findings& found);
/// Tensors that one layer lacks, and layers that a stack lacks. Tensors of `parts` are numbers of
/// the cohort.
void judge_missing(const Cohort& cohort, std::vector<LayerPart> parts, Findings& found);
/// Tensors with the same bytes.
void judge_copies(const Cohort& cohort, Findings& found);
/// Stretches of bytes that stand twice.
void judge_repeats(const Cohort& cohort, Findings& found);
/// Averages of gradients and of their squares that cannot be of the same training.
void judge_moments(const Cohort& cohort, const std::vector<Counter>& counters, Findings& found);
/// Numbers of steps that few of a kind have.
void judge_steps(const std::vector<Counter>& counters, Findings& found);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_RULES_H_
