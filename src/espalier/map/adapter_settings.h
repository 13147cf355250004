// The settings of an adapter, in the words of PEFT's adapter_config.json.
#ifndef ESPALIER_MAP_ADAPTER_SETTINGS_H_
#define ESPALIER_MAP_ADAPTER_SETTINGS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/map/plan.h"

namespace espalier {

class JsonRef;

struct AdapterSettings {
  std::optional<double> alpha = std::nullopt;             // lora_alpha
  std::optional<bool> is_rank_stabilized = std::nullopt;  // use_rslora
  /// fan_in_fan_out: whether weights are [i o].
  std::optional<bool> is_weight_transposed = std::nullopt;
  /// alpha_pattern, in its order.
  std::optional<std::vector<std::pair<std::string, double>>> alphas = std::nullopt;
  /// What is wrong with these words, which counts if an adapter is mapped; or empty.
  std::string problem = {};
  /// The adapter as the map before this one made it. Its modules count before all words.
  std::shared_ptr<const MapAdapter> made = nullptr;
};

/// Of an object; of other values, nothing. An alpha is a number above 0.
AdapterSettings adapter_settings_in(JsonRef config);

/// Errors are those of JSON that is not well formed.
[[nodiscard]] Result<AdapterSettings> adapter_settings(const std::string& json);

/// Each word of the first one that has it.
AdapterSettings either(AdapterSettings first, AdapterSettings second);

/// Names, and which of them are the end of another name, segment by segment.
class NameEnds {
 public:
  explicit NameEnds(char separator) : separator_(separator) {}

  /// The text of the name must outlive it. Of equal names, the last number counts.
  void add(std::string_view name, std::size_t number);

  /// Calls visit(number, is_whole) for each name that is the end of `name`, the shortest first.
  /// Linear in the name.
  template <class Visit>
  void visit(std::string_view name, const Visit& visit) const {
    for (std::size_t node = 0;;) {
      const auto [rest, segment] = parted(name);
      const auto next = children_.find({node, segment});
      if (next == children_.end()) return;
      node = next->second;
      if (numbers_[node]) visit(*numbers_[node], !rest);
      if (!rest) return;
      name = *rest;
    }
  }

 private:
  // What stands before the last separator, and the last segment.
  std::pair<std::optional<std::string_view>, std::string_view> parted(std::string_view name) const;

  char separator_;
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> children_;
  std::vector<std::optional<std::size_t>> numbers_ = {std::nullopt};  // by node
};

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_SETTINGS_H_
