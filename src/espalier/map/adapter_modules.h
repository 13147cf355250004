// The modules of an adapter: their factors among the leaves of a checkpoint, and the weights that
// these are for.
#ifndef ESPALIER_MAP_ADAPTER_MODULES_H_
#define ESPALIER_MAP_ADAPTER_MODULES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/adapter_layout.h"
#include "espalier/map/adapter_names.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/lift.h"
#include "espalier/map/plan.h"

namespace espalier {

inline constexpr AdapterPart kAdapterParts[] = {AdapterPart::kA, AdapterPart::kB,
                                                AdapterPart::kVector};

constexpr std::size_t slot_of(AdapterPart part) { return static_cast<std::size_t>(part); }

/// A module with factors, and the weight that they are for.
struct AdapterModule {
  /// With its label, if it has one.
  std::string name;
  std::size_t place = 0;
  std::size_t vector_place = 0;
  /// The factors and the vector, by slot_of().
  std::array<std::optional<std::uint32_t>, 3> leaves = {};
  std::uint64_t rank = 0;
  std::optional<double> alpha = std::nullopt;
  /// Of the weight.
  std::vector<std::uint64_t> shape = {};
  std::vector<AdapterRole> roles = {};
  std::array<FactorLayout, 3> layouts = {};
  /// Whether a rule says what the axes are.
  bool has_axes = false;
};

/// All of a checkpoint. Errors name tensors, as plan_with_adapter() says. Immutable.
class AdapterModules {
 public:
  /// The map, the leaves and the options must outlive it.
  [[nodiscard]] static Result<AdapterModules> find(const KeyMap& map,
                                                   std::span<const MapLeaf> leaves,
                                                   const LiftOptions& options);

  const std::vector<AdapterModule>& modules() const { return modules_; }
  /// The weights, in the order of the modules.
  const std::vector<MapLeaf>& weights() const { return weights_; }
  const std::vector<AdapterPlace>& places() const { return places_; }
  const AdapterPlace& place_of(const AdapterModule& module, AdapterPart part) const {
    return places_[part == AdapterPart::kVector ? module.vector_place : module.place];
  }
  /// What stands before names below LiftOptions::at.
  const std::string& prefix() const { return prefix_; }
  /// Leaves below it that are no factors, and those beside it.
  const std::vector<std::uint32_t>& parameters() const { return parameters_; }
  const std::vector<std::uint32_t>& others() const { return others_; }
  bool is_rank_stabilized() const { return is_rank_stabilized_; }
  /// Why a module has no alpha, and the mend; empty if all have one.
  const std::string& why_no_alpha() const { return why_no_alpha_; }
  /// The quoted name of a part that is there.
  std::string quoted(const AdapterModule& module, AdapterPart part) const;
  /// Sentences on words of the configuration that do not count.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct TakenBy;
  AdapterModules(const KeyMap& map, std::span<const MapLeaf> leaves, const LiftOptions& options);
  [[nodiscard]] Result<void> part_leaves();
  [[nodiscard]] Result<void> check_parts() const;
  [[nodiscard]] Result<void> find_alphas();
  void find_patterns();
  std::optional<TakenBy> find_rule(const std::string& name) const;
  std::optional<std::string> parameter_within(const AdapterModule& module) const;
  [[nodiscard]] Result<MapLeaf> weight_of(AdapterModule& module) const;
  [[nodiscard]] Result<void> find_shape(AdapterModule& module, std::string_view weight,
                                        const TakenBy& taken) const;
  template <class Misfit>
  [[nodiscard]] Result<void> find_layouts(AdapterModule& module, const Misfit& misfit) const;
  bool is_transposed(const AdapterModule& module, std::string_view weight) const;
  std::optional<double> set_number(std::string_view word) const;
  const MapLeaf& leaf(std::uint32_t number) const { return leaves_[number]; }

  const KeyMap* map_;
  std::span<const MapLeaf> leaves_;
  const LiftOptions* options_;
  char read_separator_;
  std::string prefix_;
  std::vector<AdapterPlace> places_;
  std::vector<AdapterModule> modules_;
  std::vector<MapLeaf> weights_;
  std::vector<std::uint32_t> parameters_;
  std::vector<std::uint32_t> others_;
  bool is_rank_stabilized_ = false;
  std::string why_no_alpha_;
  std::vector<std::string> notes_;
  // Of AdapterSettings::made.
  std::map<std::string_view, const MapAdapted*> made_;
};

/// An error in what a rule, or MapTarget::kKept, makes of a weight.
tl::unexpected<Error> failed(std::uint32_t rule, ErrorCode code, const std::string& message);

/// How a part lies beside a weight with these axes. Nothing if it would be too large.
std::optional<FactorLayout> layout_for(const AdapterNames& names, AdapterPart part,
                                       std::span<const std::uint64_t> shape,
                                       std::span<const AdapterRole> roles, std::uint64_t rank);

/// "a.b" of "lora::a.b", and "lora::"; the label is empty if there is none.
std::string_view without_label(std::string_view name);
std::string label_with_end(std::string_view name);

/// "a.b" of "a.b.weight".
std::string module_of(std::string_view weight, char separator);

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_MODULES_H_
