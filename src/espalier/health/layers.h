// What the layers of a checkpoint have, by the key paths of all nodes, examined or not.
#ifndef ESPALIER_HEALTH_LAYERS_H_
#define ESPALIER_HEALTH_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace espalier {

/// A path, split at a number that may be that of a layer, an expert or a block. The texts are
/// hashes: the paths of a small hostile file may take gigabytes.
struct LayerPart {
  /// Of a node that was not examined: a tied tensor, a number, a tensor that was not chosen.
  static constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t stack = 0;  // what stands before the number
  std::uint64_t rest = 0;   // what stands behind it
  std::uint32_t layer = 0;  // the number
  std::uint32_t tensor = kNoTensor;
  std::uint32_t begin = 0;  // of the number in the path
  std::uint32_t end = 0;
};

/// Adds the parts of a path. `tensor` is what they are known by.
void add_layer_parts(std::string_view path, std::uint32_t tensor, std::vector<LayerPart>& parts);

}  // namespace espalier

#endif  // ESPALIER_HEALTH_LAYERS_H_
