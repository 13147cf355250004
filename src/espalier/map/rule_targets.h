// What all targets of a rule have: names, a dtype, and steps of numbers. Renames need no more.
#ifndef ESPALIER_MAP_RULE_TARGETS_H_
#define ESPALIER_MAP_RULE_TARGETS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/map/planning.h"

namespace espalier {

/// Makes a leaf the only tensor of the side that is written.
[[nodiscard]] Result<void> add_rename(const PlannedRule& rule, std::uint32_t source,
                                      const CaptureValues& values);

/// Adds the names of a target: number `first` of the tensor's, further copies, and names that are
/// tied to it, as far as they have its axes.
[[nodiscard]] Result<void> add_names(const PlannedRule& rule, const TensorTerm& tensor,
                                     std::size_t first, CaptureValues values, const Sizes& sizes,
                                     MapTarget& target);

/// Which steps lead from part `read` to part `written`, each of one tensor.
[[nodiscard]] Result<std::vector<MapStep>> steps_between(const PlannedRule& rule, std::size_t read,
                                                         std::size_t written, const Sizes& sizes);

/// The value of an expression. kMapUndetermined if it has none, or is a zero that must be none.
[[nodiscard]] Result<double> value_of(const PlannedRule& rule, const Scalar& scalar,
                                      bool can_be_zero, const Sizes& sizes);

/// Nothing if the target keeps the dtype of its source.
std::optional<DType> wanted_dtype(const PlannedRule& rule, const TensorTerm& written,
                                  const std::string& name);
[[nodiscard]] Result<void> cast_target(const PlannedRule& rule, MapTarget& target, DType dtype);
/// That the numbers of what is called so cannot change. kMapShape.
tl::unexpected<Error> cannot_compute(const PlannedRule& rule, std::string_view name, DType dtype);

void add_target(const PlannedRule& rule, MapTarget target);

/// Names of tensors that may be made: one for each that is there, and some more.
std::uint64_t most_names(const Planning& planning);
tl::unexpected<Error> too_many(const PlannedRule& rule);

/// Whether a name of a tie has the axes of the first one.
bool is_alike(const TensorTerm& tensor, std::size_t name);

/// Whether the tensor has a name with {r=}.
bool has_copies(const TensorTerm& tensor);

}  // namespace espalier

#endif  // ESPALIER_MAP_RULE_TARGETS_H_
