// Which tensors of a training state are weights, and which belong to the optimizer.
#ifndef ESPALIER_HEALTH_STATE_PARTS_H_
#define ESPALIER_HEALTH_STATE_PARTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"

namespace espalier {

/// The parts of a training state, in the order in which reports show them.
enum class StatePart : std::uint8_t {
  kWeights,
  kOptimizer,  // averages of gradients, step counts and all else of an optimizer
  kRest        // running statistics, counters, losses, states of random generators, masks
};
inline constexpr StatePart kStateParts[] = {StatePart::kWeights, StatePart::kOptimizer,
                                            StatePart::kRest};

/// "weights", "optimizer" or "rest".
std::string_view state_part_name(StatePart part);

/// The part of each node of the state, by its number: kRest for nodes without a tensor.
///
/// A tensor belongs to an optimizer if a segment of its path names one ("optimizer", "opt_state"),
/// if it or a tensor beside it has a name that optimizers alone use ("exp_avg"), or if two or more
/// subtrees beside each other repeat the paths and shapes of all weights: {"net": W, "solver":
/// {"m": W, "v": W}}. One such subtree alone may be an average of the weights, and is weights.
/// Takes time that grows as the total length of the paths, and 16 bytes for each key on them.
std::vector<StatePart> state_parts(const Checkpoint& checkpoint);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_STATE_PARTS_H_
