// The leaves of checkpoints under the names that a key map's rules take.
#ifndef ESPALIER_MAP_LEAVES_H_
#define ESPALIER_MAP_LEAVES_H_

#include <string>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/key_map.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/plan.h"

namespace espalier {

/// A node without children that a rule may take, and its name.
struct NamedNode {
  std::string name;
  NodeRef node;
};

/// The leaves below `state`, in the order of the tree: tensors, placeholders, scalars, sets and
/// empty containers. Names are those of `side`: keys joined with '.', or printed key paths, without
/// the segments that it unwraps, and after "label::" if `label` is not empty.
std::vector<NamedNode> named_leaves(const NodeRef& state, const MapSide& side,
                                    std::string_view label);

/// Whether a key is left out of names.
bool is_unwrapped(const MapSide& side, const KeyView& key);

/// A dotted name without the segments that `side` unwraps; of paths, the name as it is.
std::string unwrapped(const MapSide& side, std::string_view name);

/// What a plan must know of a node.
MapLeaf to_leaf(const NamedNode& named);

}  // namespace espalier

#endif  // ESPALIER_MAP_LEAVES_H_
