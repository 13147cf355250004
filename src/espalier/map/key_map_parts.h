// The contents of a parsed key map: its sides, rules and sizes.
#ifndef ESPALIER_MAP_KEY_MAP_PARTS_H_
#define ESPALIER_MAP_KEY_MAP_PARTS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/key_map.h"
#include "espalier/map/rule.h"
#include "espalier/map/scalar.h"

namespace espalier {

/// One side of a map: how its names are written.
struct MapSide {
  enum class Names : std::uint8_t {
    kDotted,  // keys joined with '.', as a safetensors file has them
    kPaths,   // printed key paths
  };
  enum class Tree : std::uint8_t {
    kLikeInput,  // nested if the input is
    kFlat,
    kNested,
  };

  /// What messages call it: "hf", "meta".
  std::string label;
  Names names = Names::kDotted;
  Tree tree = Tree::kLikeInput;
  /// Segments that are left out of names wherever they stand, when read: "_orig_mod".
  std::vector<std::string> unwrap;
  /// Whether tensors that are written get the words of their axes as names of these; an axis of
  /// several words has none, and then no axis of the tensor has.
  bool axis_names = false;

  char separator() const { return names == Names::kDotted ? '.' : '/'; }
};

/// What arithmetic does to state along parameters.
enum class MapSlot : std::uint8_t {
  kWeight,     // as to the weights: master copies, averages
  kMoment1,    // scales with 1/c where the weights scale with c
  kMoment2,    // with 1/c^2
  kMagnitude,  // with 1/|c|
  kUpdate2,    // with c^2: of updates, which scale with the weights
  kStepSize,   // with |c|
  kUnscaled,   // not at all
  kScalar,     // one number for the parameter
};

/// How state that belongs to a parameter lies beside it: the moments of an optimizer.
struct MapAlong {
  using Slot = MapSlot;

  /// Key paths with {param} and perhaps {slot}, on the left and on the right; empty if that side
  /// has none.
  std::vector<std::string> left;
  std::vector<std::string> right;
  /// Names of slots besides those that are known.
  std::map<std::string, Slot, std::less<>> slots;
};

/// How the factors of an adapter of LoRA are called: as LiftOptions::lora says, for each side;
/// empty if the map does not say it.
struct MapLora {
  std::vector<std::string> left;
  std::vector<std::string> right;
};

/// Of KeyMapParts::required.
inline constexpr double kAnyAbove0 = std::numeric_limits<double>::infinity();

/// All that a map says.
struct KeyMapParts {
  std::string name;
  /// What it says of itself; may be empty.
  std::string description;
  MapSide left;
  MapSide right;
  MapRest rest = MapRest::kError;
  std::vector<Rule> rules;
  /// Words, and expressions for their sizes: the first that can be computed counts.
  std::map<std::string, std::vector<Scalar>, std::less<>> sizes;
  /// Dtypes of targets by glob patterns of their names, in order; the first that fits counts.
  std::vector<std::pair<std::string, DType>> dtypes;
  MapAlong along;
  MapLora lora;
  /// Words of a model's configuration, and the only numbers that the map is right for, or
  /// kAnyAbove0; true and false are 1 and 0, and of a list or an object the number of its members
  /// counts.
  std::map<std::string, double, std::less<>> required;

  const MapSide& side(bool is_left) const { return is_left ? left : right; }
};

}  // namespace espalier

#endif  // ESPALIER_MAP_KEY_MAP_PARTS_H_
