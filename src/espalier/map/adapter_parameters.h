// What of an adapter is no factor: it was trained itself, and is a parameter of the base.
#ifndef ESPALIER_MAP_ADAPTER_PARAMETERS_H_
#define ESPALIER_MAP_ADAPTER_PARAMETERS_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/adapter_modules.h"
#include "espalier/map/plan.h"

namespace espalier {

/// Gives parameters the names of the base before a map is planned, and those of an adapter after.
class AdapterParameters {
 public:
  /// All must outlive it. The adapter has a place; `adapted` are the modules that are made.
  AdapterParameters(const AdapterModules& found, std::span<const MapLeaf> leaves,
                    std::span<const MapAdapted> adapted);

  /// The parameters as the base has them. kMapUnmatched.
  [[nodiscard]] Result<std::vector<MapLeaf>> read();

  /// Makes a number among these the number of the leaf.
  void renumber(std::uint32_t& number) const;
  /// Does so for a target of their plan, and gives it the names that are written.
  void rewrite(MapTarget& target) const;

 private:
  [[nodiscard]] Result<void> read(MapLeaf& leaf, const std::string& stored);
  std::string written(const std::string& name, bool has_base_layer) const;

  const AdapterModules& found_;
  const AdapterPlace& place_;
  std::span<const MapLeaf> leaves_;
  std::set<std::string_view> adapted_;
  // By parameter.
  std::vector<bool> had_prefix_;
  std::vector<bool> had_base_layer_;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_PARAMETERS_H_
