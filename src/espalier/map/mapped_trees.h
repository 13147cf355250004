// The trees that a key map makes of checkpoints: planned and proved on their names, dtypes and
// shapes, and put together from values that the caller makes.
#ifndef ESPALIER_MAP_MAPPED_TREES_H_
#define ESPALIER_MAP_MAPPED_TREES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/lift.h"
#include "espalier/map/plan.h"
#include "espalier/value.h"

namespace espalier {

/// Immutable; copies share everything. Const use is thread-safe.
class MappedTrees {
 public:
  /// A checkpoint, and the label of its names: "lora" of "lora::layers.0.weight".
  struct Input {
    Checkpoint checkpoint;
    std::string label = {};
  };

  /// Plans what `map` makes of the inputs, whose names together are distinct, and of `like` the
  /// tree that is to be made, if given. Errors are those of plan_with_state(), and kMapTemplate if
  /// the plan makes something else than `like` has.
  [[nodiscard]] static Result<MappedTrees> make(const KeyMap& map, std::vector<Input> inputs,
                                                const LiftOptions& options,
                                                std::optional<Checkpoint> like = std::nullopt);

  const std::shared_ptr<const MapPlan>& plan() const { return plan_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  /// The node of a leaf of the plan, and the number of its input.
  const NodeRef& node(std::uint32_t leaf) const { return nodes_[leaf]; }
  std::size_t input_of(std::uint32_t leaf) const { return inputs_of_[leaf]; }

  /// The number of `like` for Makers::load.
  static constexpr std::size_t kLike = ~std::size_t{0};
  struct Makers {
    /// The value of a node of an input, or of `like`.
    std::function<Result<Value>(std::size_t input, const NodeRef& node)> load;
    /// The data of a target that is no rename.
    std::function<TensorData(std::size_t target)> produce;
  };

  using Output = MapOutput;
  /// Names become keys as MapSide::tree says; what the map keeps stays where it was, and positions
  /// of lists that are taken become null. kNameCollision if a name is also a part of another one.
  [[nodiscard]] Result<std::vector<Output>> outputs(const Makers& makers) const;

  /// The outputs as one state: several labels are the keys of a dict.
  static Value joined(std::vector<Output> outputs);

  /// The metadata of the inputs; where several have a key, the first one counts. "espalier.map" is
  /// a JSON text: the map's name and hash, the direction, the sizes that were set, under
  /// "lora" the adapter_config() of an adapter, and under "before" what it was in the input. `load`
  /// gives that of an input.
  [[nodiscard]] Result<Value> metadata(FunctionRef<Result<Value>(std::size_t input)> load) const;

  /// Compares what must be equal and is no tensor. kMapData.
  [[nodiscard]] Result<void> check_scalars() const;

 private:
  class Builder;
  MappedTrees() = default;
  [[nodiscard]] Result<void> check_like() const;
  // The parameters of "param_groups" beside the state that lies along parameters.
  [[nodiscard]] Result<void> find_params(const KeyMap& map, const std::vector<MapLeaf>& leaves,
                                         LiftOptions& options);
  // Whether a name is that of "params" or "param_names" of a group, which are written anew.
  bool is_group_list(std::string_view name) const;
  // Writes the new numbers or names of parameters into "params" of the groups.
  [[nodiscard]] Result<void> renumber(std::vector<Output>& outputs) const;
  Result<KeyPath> path_of(const std::string& name, bool is_nested) const;
  bool is_nested() const;
  bool is_input_nested() const;
  // Whether the names of parameters are keys as they are.
  bool has_flat_params() const;

  // What it takes of the map to read and to write names.
  MapSide read_side_;
  MapSide side_;
  std::string map_name_;
  std::string map_hash_;
  bool reverse_ = false;
  Sizes sizes_;
  std::optional<Checkpoint> like_;
  // The name of "param_groups", and whether state is written under numbers.
  std::string param_groups_;
  bool writes_numbers_ = false;
  // Where the parameters stand, and what along them stands beside them.
  std::string at_;
  std::string state_key_;

  std::vector<Input> inputs_;
  std::shared_ptr<const MapPlan> plan_;
  // By leaf.
  std::vector<NodeRef> nodes_;
  std::vector<std::size_t> inputs_of_;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_MAPPED_TREES_H_
