// The sizes of words in one instance of a rule: those that are known before any tensor is looked
// at, and those that follow from the numbers in names and from shapes.
#ifndef ESPALIER_MAP_INSTANCE_SIZES_H_
#define ESPALIER_MAP_INSTANCE_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/planning.h"
#include "espalier/map/rule_leaves.h"

namespace espalier {

/// What is known of an instance: the sizes of words, and axes with all of "...".
struct Frame {
  CaptureValues values;
  Sizes sizes;
  std::vector<Axes> read_axes = {};
  std::optional<std::size_t> rest = std::nullopt;  // axes behind "..."

  /// The axes of a name, without "...".
  Axes whole(const Axes& axes) const;
};

/// Finds the sizes of an instance, whose tensors have axes. kMapIncomplete, kMapShape and
/// kMapUndetermined.
[[nodiscard]] Result<Frame> find_sizes(const PlannedRule& rule, const Instance& instance);

/// kMapUndetermined if the axes of a tensor have a word whose size is not known.
[[nodiscard]] Result<void> check_known(const PlannedRule& rule, const Axes& axes,
                                       const TensorTerm& tensor, const Candidates& candidates,
                                       const Frame& frame);

/// kMapShape if a leaf is no tensor, or one without data.
[[nodiscard]] Result<void> check_tensor(const PlannedRule& rule, const MapLeaf& source);

/// Whether the values of a word alone tell tensors apart: it is no part of {6*b+j}, and neither
/// copies nor a choice.
bool is_plain_number(const Rule& rule, std::size_t word);

/// That a word has other numbers than its size, and why that is its size.
std::string wrong_count(const std::string& word, const std::set<std::uint64_t>& numbers,
                        std::uint64_t size, const std::string& origin);

/// "0 to 3", or "0, 2, 3".
std::string printed(const std::set<std::uint64_t>& numbers);

}  // namespace espalier

#endif  // ESPALIER_MAP_INSTANCE_SIZES_H_
