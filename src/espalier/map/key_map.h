// A key map: rules that turn the names and layouts of one framework's checkpoints into another's,
// in both directions. docs/key-maps.md describes the language.
//
//   Result<KeyMap> map = KeyMap::parse(text);
//   Result<MapPlan> plan = MapPlan::make(*map, leaves, options);  // in plan.h
#ifndef ESPALIER_MAP_KEY_MAP_H_
#define ESPALIER_MAP_KEY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/codec/hash.h"
#include "espalier/map/rule.h"
#include "espalier/map/scalar.h"
#include "espalier/tree/dtype.h"

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

/// What becomes of tensors that no rule takes.
enum class MapRest : std::uint8_t { kError, kKeep, kDrop };

/// How state that belongs to a parameter lies beside it: the moments of an optimizer.
struct MapAlong {
  /// What arithmetic does to it.
  enum class Slot : std::uint8_t {
    kWeight,   // as to the weights: master copies, averages
    kMoment1,  // scales with 1/c where the weights scale with c
    kMoment2,  // with 1/c^2
    kScalar,   // one number for the parameter
  };
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

/// A parsed and checked map. Immutable; const access is thread-safe.
class KeyMap {
 public:
  /// Most bytes of the text, and most rules.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  static constexpr std::size_t kMaxRules = 10'000;

  /// Parses the JSON text of a map, with comments and trailing commas. kMapInvalid, with a message
  /// that names the rule or the member and says what is wrong.
  [[nodiscard]] static Result<KeyMap> parse(std::string_view text);

  const std::string& name() const { return name_; }
  /// What it says of itself; may be empty.
  const std::string& description() const { return description_; }
  const MapSide& left() const { return left_; }
  const MapSide& right() const { return right_; }
  const MapSide& side(bool is_left) const { return is_left ? left_ : right_; }
  const std::vector<Rule>& rules() const { return rules_; }
  MapRest rest() const { return rest_; }
  /// Words, and expressions for their sizes: the first that can be computed counts.
  const std::map<std::string, std::vector<Scalar>, std::less<>>& sizes() const { return sizes_; }
  /// Dtypes of targets by glob patterns of their names, in order; the first that fits counts.
  const std::vector<std::pair<std::string, DType>>& dtypes() const { return dtypes_; }
  const MapAlong& along() const { return along_; }
  const MapLora& lora() const { return lora_; }
  /// Words of a model's configuration, and the only numbers that the map is right for; true and
  /// false are 1 and 0, and of a list or an object the number of its members counts.
  const std::map<std::string, double, std::less<>>& required() const { return required_; }

  /// The map in one spelling: JSON with sorted members and rules as canonical_text().
  std::string canonical() const;
  /// XXH3-128 of canonical(): equal for maps that differ in comments and spelling alone.
  Hash128 hash() const;

 private:
  class Parser;

  std::string name_;
  std::string description_;
  MapSide left_;
  MapSide right_;
  MapRest rest_ = MapRest::kError;
  std::vector<Rule> rules_;
  std::map<std::string, std::vector<Scalar>, std::less<>> sizes_;
  std::vector<std::pair<std::string, DType>> dtypes_;
  MapAlong along_;
  MapLora lora_;
  std::map<std::string, double, std::less<>> required_;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_KEY_MAP_H_
