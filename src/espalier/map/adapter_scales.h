// How the factors of joined modules are scaled, so that one alpha is right for all of them.
#ifndef ESPALIER_MAP_ADAPTER_SCALES_H_
#define ESPALIER_MAP_ADAPTER_SCALES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/adapter_layout.h"
#include "espalier/map/adapter_modules.h"
#include "espalier/map/plan.h"

namespace espalier {

/// What B of each module is scaled by, and the alpha; nothing if it is not known.
struct AdapterScales {
  std::map<std::uint32_t, double> by_module;
  std::optional<double> alpha;
};

/// What a weight is joined from, by the position along stacked axes.
using RankStacks = std::map<AxisPosition, std::vector<RankBlock>>;

/// Those for factors of a weight with this rank. kMapUndetermined and kMapNotInvertible.
[[nodiscard]] Result<AdapterScales> scales_of(const AdapterModules& found, const MapTarget& weight,
                                              const RankStacks& stacks, std::uint64_t rank);

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_SCALES_H_
