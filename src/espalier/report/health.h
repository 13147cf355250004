// Finds faults in the numbers of a checkpoint from the surveys of its tensors.
#ifndef ESPALIER_REPORT_HEALTH_H_
#define ESPALIER_REPORT_HEALTH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/report/name_roles.h"
#include "espalier/report/tensor_survey.h"

namespace espalier {

/// The rules. docs/health.md says what each finds, and with which bounds.
enum class HealthRule : std::uint8_t {
  kUnreadable,
  kNan,
  kInfinite,
  kNegativeSquares,
  kAllZero,
  kConstant,
  kDeadRows,
  kDeadColumns,
  kOutlierRows,
  kOutlierColumns,
  kOutlierElements,
  kNormOutOfRange,
  kSaturated,
  kEqualTensors,
  kMixedDTypes,
  kZeroMoments,
  kUnequalSteps,
};
inline constexpr std::size_t kHealthRules = 17;

/// The name for programs, such as "dead_rows".
std::string_view health_rule_name(HealthRule rule);

/// How bad a finding is.
enum class Severity : std::uint8_t {
  kNote,     // often on purpose
  kWarning,  // rarely on purpose
  kFault,    // never on purpose
};

std::string_view severity_name(Severity severity);

/// Something that is wrong with a tensor.
struct Finding {
  HealthRule rule = HealthRule::kNan;
  Severity severity = Severity::kNote;
  /// The key path of the tensor, or of the first one.
  std::string path;
  /// Of another tensor that it is about; often empty.
  std::string other;
  /// A sentence without the path, such as "2 of 64 elements are NaN, the first at [0, 5]".
  std::string text;
  /// The element, row or column that it begins with, counted in row-major order.
  std::optional<std::uint64_t> at;
};

/// Collects what is known of a checkpoint and finds what is wrong with it. Not thread-safe. Throws
/// std::bad_alloc.
class HealthCheck {
 public:
  /// Bytes of a path that are kept; a longer one is cut in the middle. A small hostile file may
  /// have many tensors with paths of 16 KiB.
  static constexpr std::size_t kMostPathBytes = 512;

  /// A tensor. Its name is the key path of its first node.
  void add(std::string_view path, TensorSurvey survey);
  /// A tensor that could not be read, and why.
  void add_unreadable(std::string_view path, std::string reason);
  /// A number of the tree that is no tensor. One that is neither NaN nor a step is ignored.
  void add_number(std::string_view path, double value);

  /// The findings, the worst first, then by rule, then in the order of the tensors.
  std::vector<Finding> findings() const;

 private:
  struct Tensor {
    std::string path;
    std::string kind;
    NameRole role = NameRole::kWeight;
    TensorSurvey survey;
  };
  struct Unreadable {
    std::string path;
    std::string reason;
  };
  struct Counter {
    std::string path;
    std::string kind;
    double value = 0;
  };
  struct Findings;
  using Kinds = std::map<std::string_view, std::vector<const Tensor*>>;
  using Group = std::vector<const Tensor*>;

  void look_at(const Tensor& tensor, Findings& found) const;
  static void look_at_channels(const Tensor& tensor, Findings& found);
  static bool has_spike(const Tensor& tensor, Findings& found);
  static void compare_norms(const Group& group, double factor, Findings& found);
  static void compare_dtypes(const Group& group, Findings& found);
  static void find_zero_vectors(const Group& group, Findings& found);
  void find_equal(Findings& found) const;
  void find_zero_moments(Findings& found) const;
  void compare_counters(Findings& found) const;
  static void excuse_whole_kinds(const Kinds& kinds, Findings& found);

  std::vector<Tensor> tensors_;
  std::vector<Unreadable> unreadable_;
  std::vector<Counter> counters_;
  std::vector<std::string> nan_numbers_;
  std::set<std::string, std::less<>> scaled_;  // containers with scales beside what they scale
};

}  // namespace espalier

#endif  // ESPALIER_REPORT_HEALTH_H_
