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

#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/map/plan.h"

namespace espalier {

class JsonRef;

/// Of an object; of other values, nothing. An alpha is a number above 0.
AdapterSettings adapter_settings_in(JsonRef config);

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
