#include "espalier/map/adapter_layout.h"

#include <algorithm>
#include <utility>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

// The positions along axes of one role; 0 along the others.
AxisPosition only(const AxisPosition& position, std::span<const AdapterRole> roles,
                  AdapterRole role) {
  AxisPosition own(position.size(), 0);
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (roles[i] == role) own[i] = position[i];
  }
  return own;
}

// What of a target is that of one module.
struct PartKey {
  AxisPosition target_stack;
  std::uint32_t module = 0;
  AxisPosition stack;

  friend bool operator<(const PartKey& a, const PartKey& b) {
    return std::tie(a.target_stack, a.module, a.stack) <
           std::tie(b.target_stack, b.module, b.stack);
  }
};

struct PartPieces {
  const std::vector<MapStep>* steps = nullptr;
  std::vector<std::pair<Stretch, std::vector<Stretch>>> columns_by_rows;
};

// The next choice, the last one fastest; false after the last one.
bool advance(std::vector<std::uint64_t>& index, const std::vector<WordRun>& runs) {
  for (std::size_t i = index.size(); i-- > 0;) {
    if (++index[i] < runs[i].count) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

std::optional<FactorLayout> layout_of(std::span<const std::uint64_t> weight,
                                      std::span<const AdapterRole> roles, AdapterRole own,
                                      std::optional<std::uint64_t> rank, bool is_rank_first) {
  FactorLayout layout;
  const auto add_axes = [&](AdapterRole role) {
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (roles[i] == role) layout.axes.emplace_back(i);
    }
  };
  add_axes(AdapterRole::kStack);
  if (rank && is_rank_first) layout.axes.emplace_back(std::nullopt);
  add_axes(own);
  if (rank && !is_rank_first) layout.axes.emplace_back(std::nullopt);
  layout.strides.assign(weight.size(), 0);
  std::uint64_t stride = 1;
  for (std::size_t i = layout.axes.size(); i-- > 0;) {
    const auto& axis = layout.axes[i];
    const std::uint64_t size = axis ? weight[*axis] : *rank;
    (axis ? layout.strides[*axis] : layout.rank_stride) = static_cast<std::int64_t>(stride);
    layout.shape.insert(layout.shape.begin(), size);
    const auto next = checked_mul(stride, size);
    if (!next || *next > kMaxFactorElements) return std::nullopt;
    stride = *next;
  }
  return layout;
}

AxisPosition position_of(std::int64_t element, std::span<const std::uint64_t> shape) {
  AxisPosition position(shape.size(), 0);
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::int64_t>(std::max<std::uint64_t>(shape[i], 1));
    position[i] = element % size;
    element /= size;
  }
  return position;
}

std::vector<std::int64_t> strides_of(std::span<const std::uint64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<std::int64_t>(shape[i]);
  }
  return strides;
}

std::int64_t element_at(const AxisPosition& position, const FactorLayout& layout) {
  std::int64_t element = 0;
  for (std::size_t i = 0; i < position.size(); ++i) element += position[i] * layout.strides[i];
  return element;
}

std::uint64_t size_along(std::span<const std::uint64_t> shape, std::span<const AdapterRole> roles,
                         AdapterRole role) {
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (roles[i] == role) size *= shape[i];
  }
  return size;
}

std::optional<std::map<AxisPosition, std::vector<RankBlock>>> rank_blocks(
    const std::vector<AdapterPatch>& patches, std::span<const AdapterRole> target_roles,
    FunctionRef<std::span<const AdapterRole>(std::uint32_t module)> roles_of, std::size_t most) {
  std::vector<PartKey> order;
  std::map<PartKey, PartPieces> parts;
  std::size_t pieces = 0;
  for (const AdapterPatch& patch : patches) {
    const std::span<const AdapterRole> roles = roles_of(patch.module);
    std::vector<WordRun> stacked;
    Stretch rows;
    Stretch columns;
    for (const WordRun& run : patch.runs) {
      const AdapterRole role = roles[run.from_axis];
      (role == AdapterRole::kStack ? stacked
       : role == AdapterRole::kOut ? rows.runs
                                   : columns.runs)
          .push_back(run);
    }
    // Each step along a stacked axis of the source has factors of its own.
    std::vector<std::uint64_t> index(stacked.size(), 0);
    do {
      if (++pieces > most) return std::nullopt;
      AxisPosition from = patch.from;
      AxisPosition to = patch.to;
      for (std::size_t i = 0; i < stacked.size(); ++i) {
        from[stacked[i].from_axis] += stacked[i].from_step * static_cast<std::int64_t>(index[i]);
        to[stacked[i].to_axis] += stacked[i].to_step * static_cast<std::int64_t>(index[i]);
      }
      PartKey part{only(to, target_roles, AdapterRole::kStack), patch.module,
                   only(from, roles, AdapterRole::kStack)};
      rows.from = only(from, roles, AdapterRole::kOut);
      rows.to = only(to, target_roles, AdapterRole::kOut);
      columns.from = only(from, roles, AdapterRole::kIn);
      columns.to = only(to, target_roles, AdapterRole::kIn);
      const auto [at, is_new] = parts.try_emplace(part);
      if (is_new) order.push_back(std::move(part));
      at->second.steps = patch.steps;
      auto& by_rows = at->second.columns_by_rows;
      auto found = std::find_if(by_rows.begin(), by_rows.end(),
                                [&](const auto& each) { return each.first == rows; });
      if (found == by_rows.end()) {
        found = by_rows.insert(by_rows.end(), {rows, std::vector<Stretch>()});
      }
      found->second.push_back(columns);
    } while (advance(index, stacked));
  }
  std::map<AxisPosition, std::vector<RankBlock>> stacks;
  for (const PartKey& part : order) {
    PartPieces& own = parts.at(part);
    auto& blocks = stacks[part.target_stack];
    const auto first = static_cast<std::ptrdiff_t>(blocks.size());
    for (auto& [rows, columns] : own.columns_by_rows) {
      std::sort(columns.begin(), columns.end());
      const auto found = std::find_if(
          blocks.begin() + first, blocks.end(),
          [same = &columns](const RankBlock& block) { return block.columns == *same; });
      if (found != blocks.end()) {
        found->rows.push_back(rows);
      } else {
        blocks.push_back({part.module, part.stack, own.steps, {rows}, columns});
      }
    }
  }
  return stacks;
}

}  // namespace espalier
