// Numbers that the words of a key map stand for: those of a model's configuration, and those that
// are set.
#ifndef ESPALIER_MAP_NUMBERS_H_
#define ESPALIER_MAP_NUMBERS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "espalier/base/error.h"
#include "espalier/map/plan.h"

namespace espalier {

/// The numbers of a model's configuration in JSON, such as config.json, for
/// MapPlanOptions::config. "text_config.head_dim" is a member of a member,
/// unless there is a member of that name;
/// true and false are 1 and 0, and a list or an object counts its members. Errors are those of
/// JSON that is not well formed.
[[nodiscard]] Result<std::function<std::optional<double>(const std::string& word)>> numbers_of(
    std::string json);

/// The number that the first one has, or else the second one; both are functions.
std::function<std::optional<double>(const std::string& word)> either(
    std::function<std::optional<double>(const std::string& word)> first,
    std::function<std::optional<double>(const std::string& word)> second);

/// Sets words of a plan: a whole number is a size, and any other one is for arithmetic alone.
/// kInvalidArgument for a number that is not finite.
[[nodiscard]] Result<void> set_numbers(const std::map<std::string, double>& numbers,
                                       MapPlanOptions& plan);

}  // namespace espalier

#endif  // ESPALIER_MAP_NUMBERS_H_
