#include "espalier/health/finding.h"

#include <array>

namespace espalier {

std::string_view health_rule_name(HealthRule rule) {
  static constexpr std::array<std::string_view, kHealthRules> kNames = {
      "unreadable",       "nan",        "infinite",     "negative_squares",
      "all_zero",         "constant",   "run",          "dead_rows",
      "dead_columns",     "equal_rows", "zeros",        "zeros_in_vector",
      "few_values",       "low_bits",   "saturated",    "enormous",
      "outlier_elements", "spike",      "outlier_rows", "outlier_columns",
      "uneven_rows",      "low_rank",   "norm",         "sign",
      "negative",         "shape",      "mixed_dtypes", "missing",
      "equal_tensors",    "repeated",   "moments",      "zero_moments",
      "unequal_steps",    "denormal"};
  const auto number = static_cast<std::size_t>(rule);
  return number < kNames.size() ? kNames[number] : "";
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kFault:
      return "fault";
    case Severity::kWarning:
      return "warning";
    default:
      return "note";
  }
}

}  // namespace espalier
