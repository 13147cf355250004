// Groups tensors by layer, from their key paths alone.
#ifndef ESPALIER_REPORT_LAYER_PATH_H_
#define ESPALIER_REPORT_LAYER_PATH_H_

#include <string_view>

namespace espalier {

/// The part of a printed key path that names the layer: up to the last number before the last
/// segment, otherwise all but the last segment. Dots separate segments, too, because names of flat
/// files have dots: "model/layers/3/attn/weight" is in "model/layers/3", "conv1.weight" in "conv1".
std::string_view layer_of(std::string_view path);

}  // namespace espalier

#endif  // ESPALIER_REPORT_LAYER_PATH_H_
