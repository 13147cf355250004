#include "espalier/format/access.h"

#include <algorithm>

namespace espalier {

const StorageRecord* find_table_storage(const Tables& t, std::uint32_t tensor) {
  const auto at = std::lower_bound(
      t.storages.begin(), t.storages.end(), tensor,
      [](const StorageRecord& storage, std::uint32_t number) { return storage.tensor < number; });
  return at == t.storages.end() || at->tensor != tensor ? nullptr : &*at;
}

std::span<const std::uint32_t> table_axis_names(const Tables& t, std::uint32_t tensor,
                                                std::size_t rank) {
  const auto at = std::lower_bound(
      t.axes.begin(), t.axes.end(), tensor,
      [](const AxesRecord& axes, std::uint32_t number) { return axes.tensor < number; });
  if (at == t.axes.end() || at->tensor != tensor) return {};
  return t.axis_names.subspan(at->first, rank);
}

std::optional<std::uint32_t> table_label(const Tables& t, std::uint32_t node) {
  const auto at = std::lower_bound(
      t.labels.begin(), t.labels.end(), node,
      [](const LabelRecord& label, std::uint32_t number) { return label.node < number; });
  if (at == t.labels.end() || at->node != node) return std::nullopt;
  return at->text;
}

}  // namespace espalier
