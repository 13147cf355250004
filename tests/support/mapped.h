// Key maps on small tensors in memory: planning, and what the pieces of a plan give.
#ifndef ESPALIER_TESTS_SUPPORT_MAPPED_H_
#define ESPALIER_TESTS_SUPPORT_MAPPED_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/key_map.h"
#include "espalier/map/plan.h"

namespace espalier::testing {

/// A tensor of 16-bit numbers.
struct SmallTensor {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint16_t> elements;

  friend bool operator==(const SmallTensor&, const SmallTensor&) = default;
};
using SmallState = std::map<std::string, SmallTensor>;

/// A tensor whose elements count up from `first`.
SmallTensor counting(std::vector<std::uint64_t> shape, std::uint16_t first = 0);

/// Tensors of u16, in the order of the names.
std::vector<MapLeaf> leaves_of(const SmallState& state);

/// A map with these rules; fails the test if it is none.
KeyMap map_of(std::string_view rules, std::string_view more = "");

/// What the plan makes of the state, by its pieces, copied in windows of `window` bytes.
SmallState made_by(const MapPlan& plan, const SmallState& state, std::uint64_t window = 0);

/// Plans and makes; fails the test if the plan fails.
SmallState mapped(const KeyMap& map, const SmallState& state, const MapPlanOptions& options = {});

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_MAPPED_H_
