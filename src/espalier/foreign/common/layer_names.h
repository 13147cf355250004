// The names and the order that Keras means its groups to have.
#ifndef ESPALIER_FOREIGN_COMMON_LAYER_NAMES_H_
#define ESPALIER_FOREIGN_COMMON_LAYER_NAMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace espalier {

/// A part of a group.
struct GroupPart {
  /// In the file; after name_layers() in the tree.
  std::string_view key;
  /// What the layer is called, as the attribute `name` of its `vars` says; empty if nothing does.
  std::string_view layer = {};
  /// What the caller knows it by.
  std::uint32_t number = 0;
};

/// If all keys are numbers ("0", "1", "10"), puts them in their order; false if not.
bool order_numbers(std::vector<GroupPart>& parts);

/// If any part is a layer, calls all of these what they are called, unless two parts would have one
/// name, and puts all in the order of the numbers in the file: "dense", "dense_2", "dense_10".
/// False if none is.
bool name_layers(std::vector<GroupPart>& parts);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_LAYER_NAMES_H_
