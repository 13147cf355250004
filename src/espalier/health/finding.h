// What the health rules find.
#ifndef ESPALIER_HEALTH_FINDING_H_
#define ESPALIER_HEALTH_FINDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// The rules. docs/health.md says what each finds, and with which bounds.
enum class HealthRule : std::uint8_t {
  kUnreadable,
  kNan,
  kInfinite,
  kNegativeSquares,
  kAllZero,
  kConstant,
  kRun,
  kDeadRows,
  kDeadColumns,
  kEqualRows,
  kZeros,
  kZerosInVector,
  kFewValues,
  kLowBits,
  kSaturated,
  kEnormous,
  kOutlierElements,
  kSpike,
  kOutlierRows,
  kOutlierColumns,
  kUnevenRows,
  kLowRank,
  kNorm,
  kSign,
  kNegative,
  kShape,
  kMixedDTypes,
  kMissing,
  kEqualTensors,
  kRepeated,
  kMoments,
  kZeroMoments,
  kUnequalSteps,
  kDenormal,
};
inline constexpr std::size_t kHealthRules = 34;

/// The name for programs, such as "dead_rows".
std::string_view health_rule_name(HealthRule rule);

/// How bad a finding is.
enum class Severity : std::uint8_t {
  kNote,     // usual in some sound model
  kWarning,  // contradicts the siblings of the tensor, or how files are written
  kFault,    // impossible in a usable state, whatever the model
};

std::string_view severity_name(Severity severity);

/// Something that is wrong with a tensor.
struct Finding {
  HealthRule rule = HealthRule::kNan;
  Severity severity = Severity::kNote;
  /// The key path of the tensor, or of the first one; of kMissing, the one that it would have.
  std::string path;
  /// Of another tensor that it is about; often empty.
  std::string other;
  /// A sentence without the path, such as "2 of 64 elements are NaN, the first at [0, 5]".
  std::string text;
  /// The element, row or column that it begins with, counted in row-major order.
  std::optional<std::uint64_t> at;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_FINDING_H_
