// The axes of weights and of their factors, and which rows and columns of a weight that a map makes
// are those of one product of factors.
#ifndef ESPALIER_MAP_ADAPTER_LAYOUT_H_
#define ESPALIER_MAP_ADAPTER_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/map/plan.h"

namespace espalier {

/// Positions of elements are signed, and have a few bytes each.
inline constexpr std::uint64_t kMaxFactorElements = std::uint64_t{1} << 60;

/// What an axis of a weight is to an adapter.
enum class AdapterRole : std::uint8_t {
  kNone,
  kStack,  // the factors have it, too: layers or experts
  kOut,    // rows: B has it
  kIn,     // columns: A has it
};

/// How a factor lies beside its weight.
struct FactorLayout {
  std::vector<std::uint64_t> shape;
  /// By axis of the weight; 0 for those that the factor lacks.
  std::vector<std::int64_t> strides;
  std::int64_t rank_stride = 0;
  /// By axis of the factor: that of the weight; nothing for the rank.
  std::vector<std::optional<std::size_t>> axes;
};

/// Of the factor with the axes of role `own`: stacked axes first, then the rank, if it has one and
/// it is first, and then the others. Nothing if it has more than kMaxFactorElements.
std::optional<FactorLayout> layout_of(std::span<const std::uint64_t> weight,
                                      std::span<const AdapterRole> roles, AdapterRole own,
                                      std::optional<std::uint64_t> rank, bool is_rank_first);

/// Positions by axis.
using AxisPosition = std::vector<std::int64_t>;

/// The position of an element along each axis.
AxisPosition position_of(std::int64_t element, std::span<const std::uint64_t> shape);

/// Elements from one step along an axis to the next.
std::vector<std::int64_t> strides_of(std::span<const std::uint64_t> shape);

/// The element of a factor at a position of its weight.
std::int64_t element_at(const AxisPosition& position, const FactorLayout& layout);

/// The product of the sizes of the axes of one role.
std::uint64_t size_along(std::span<const std::uint64_t> shape, std::span<const AdapterRole> roles,
                         AdapterRole role);

/// A word of a rule along an axis of the source and one of the target, in steps along these.
struct WordRun {
  std::uint64_t count = 0;
  std::uint32_t from_axis = 0;
  std::int64_t from_step = 0;
  std::uint32_t to_axis = 0;
  std::int64_t to_step = 0;

  auto tied() const { return std::tie(count, from_axis, from_step, to_axis, to_step); }
  friend bool operator==(const WordRun& a, const WordRun& b) { return a.tied() == b.tied(); }
  friend bool operator<(const WordRun& a, const WordRun& b) { return a.tied() < b.tied(); }
};

/// Rows of a weight that go to rows of another one, or columns.
struct Stretch {
  AxisPosition from;
  AxisPosition to;
  std::vector<WordRun> runs;

  std::uint64_t size() const {
    std::uint64_t size = 1;
    for (const WordRun& run : runs) size *= run.count;
    return size;
  }
  auto tied() const { return std::tie(from, to, runs); }
  friend bool operator==(const Stretch& a, const Stretch& b) { return a.tied() == b.tied(); }
  friend bool operator<(const Stretch& a, const Stretch& b) { return a.tied() < b.tied(); }
};

/// A piece of a weight, told by axes.
struct AdapterPatch {
  std::uint32_t module = 0;
  const std::vector<MapStep>* steps = nullptr;
  AxisPosition from;
  AxisPosition to;
  std::vector<WordRun> runs;
};

/// What one product of factors fills in a target: every choice of its rows and columns.
struct RankBlock {
  std::uint32_t module = 0;
  AxisPosition stack;  // of the source
  const std::vector<MapStep>* steps = nullptr;
  std::vector<Stretch> rows;
  std::vector<Stretch> columns;
};

/// The products that a target is the sum of, by position along its stacked axes. A module has one
/// for all rows that have the same columns. Nothing if there are more than `most` pieces.
std::optional<std::map<AxisPosition, std::vector<RankBlock>>> rank_blocks(
    const std::vector<AdapterPatch>& patches, std::span<const AdapterRole> target_roles,
    FunctionRef<std::span<const AdapterRole>(std::uint32_t module)> roles_of, std::size_t most);

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_LAYOUT_H_
