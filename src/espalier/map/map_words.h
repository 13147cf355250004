// What the words of a map stand for before any tensor is looked at: what the user gives, and what
// the map says or computes from the model's configuration.
#ifndef ESPALIER_MAP_MAP_WORDS_H_
#define ESPALIER_MAP_MAP_WORDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/axes.h"
#include "espalier/map/planning.h"

namespace espalier {

/// What a configuration is asked for the number of members of a list or an object with, behind its
/// word.
inline constexpr char kCountMark = '#';

/// The number as a size; nothing unless it is whole, not negative and below 1e15.
std::optional<std::uint64_t> as_size(double number);

/// kMapInvalid if the user gives a number for a word that is none of given_words(), and none of
/// LiftOptions::other_words.
[[nodiscard]] Result<void> check_given_words(const KeyMap& map, const LiftOptions& options);

/// Computes the words of the map. kMapInvalid if the map is not right for the configuration, or a
/// size is no whole number.
[[nodiscard]] Result<void> find_numbers(Planning& planning);

/// What a word stands for, by the user, the map or the configuration.
std::optional<double> number_of(const Planning& planning, const std::string& word);

/// Computes the sizes that need those of an instance, "num_attention_heads / r", and adds them to
/// `known`. kMapInvalid if one is no whole number.
[[nodiscard]] Result<void> compute_sizes(const Planning& planning, const Axes& axes, Sizes& known,
                                         Origins& origins);

/// "; h is 4 by num_attention_heads, p is 2 as given": the sizes that do not follow from tensors.
/// Empty if there are none.
std::string origins_of(const Axes& axes, const Sizes& known, const Origins& origins);

}  // namespace espalier

#endif  // ESPALIER_MAP_MAP_WORDS_H_
