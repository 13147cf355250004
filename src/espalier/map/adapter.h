// Maps an adapter of LoRA by the map of its base.
//
// An adapter adds s * B * A to a weight [o i], where A is [r i], B is [o r], and s is alpha/r. What
// a rule does to rows of the weight it does to those of B, and what it does to columns, to those of
// A: docs/key-maps.md, "Adapters".
#ifndef ESPALIER_MAP_ADAPTER_H_
#define ESPALIER_MAP_ADAPTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/lift.h"
#include "espalier/map/plan.h"

namespace espalier {

/// How many times as many elements as the factors that it is made of a factor may have, because
/// those of joined weights lie on a diagonal. Up to kFewElements, it may have more.
inline constexpr std::uint64_t kMaxSpread = 1024;
inline constexpr std::uint64_t kFewElements = std::uint64_t{1} << 26;

/// Whether the map says how factors are called, and leaves are called so.
bool has_factors(const KeyMap& map, const std::vector<MapLeaf>& leaves, const LiftOptions& options);

/// Plans what `map`, a map of weights, makes of an adapter of them. Tensors that are no factors are
/// parameters, and mapped as such.
///
/// Errors are those of MapPlan::make() for the weights, and, each with a sentence that names the
/// rule, the tensors and the mend: kMapInvalid for a text of `lora`, for `along` beside it, and for
/// settings; kMapUnmatched for factors that no rule or no name takes; kMapAmbiguous for two of one
/// module; kMapIncomplete for a factor without the other; kMapShape for factors that fit neither
/// each other nor the weight; kMapUndetermined if factors are joined and alpha is not known;
/// kMapNotInvertible for what has no factors: rules that mix rows and columns, and ratios of alpha
/// that are no power of 2. kLimitExceeded for a factor that is mostly zeros: see kMaxSpread.
[[nodiscard]] Result<MapPlan> plan_with_adapter(const KeyMap& map, std::vector<MapLeaf> leaves,
                                                const LiftOptions& options);

/// A rank, and its alpha.
struct AdapterScale {
  std::uint64_t rank = 0;
  std::optional<double> alpha = std::nullopt;

  friend bool operator==(const AdapterScale&, const AdapterScale&) = default;
};

/// The scale that most modules have; of as many, the first. The adapter has a module.
AdapterScale common_scale(const MapAdapter& adapter);

/// What differs from common_scale(), by module: rank_pattern and alpha_pattern. A key holds for all
/// modules that end in it, so these have keys, too, which come first.
struct AdapterPatterns {
  std::vector<std::pair<std::string, std::uint64_t>> ranks;
  std::vector<std::pair<std::string, double>> alphas;
};
AdapterPatterns adapter_patterns(const MapAdapter& adapter);

/// Whether there is a module, and all weights have columns before rows: fan_in_fan_out.
bool are_all_transposed(const MapAdapter& adapter);

/// The adapter in the words of PEFT's adapter_config.json, as JSON: r, lora_alpha (none if it is
/// not known), use_rslora, fan_in_fan_out if it is true, target_modules, and patterns for modules
/// that have others.
std::string adapter_config(const MapAdapter& adapter);

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_H_
