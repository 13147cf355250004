#include "espalier/map/pieces.h"

#include <algorithm>

#include "espalier/base/merge_sort.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

constexpr std::size_t kBlockGatherBytes = 4096;

// Elements that stand together in source and target.
std::uint64_t run_of(const MapPiece& piece) {
  if (piece.loops.empty()) return 1;
  const MapLoop& inner = piece.loops.back();
  return inner.from == 1 && inner.to == 1 ? inner.count : 1;
}

}  // namespace

bool is_stored_alike(const MapLeaf& a, const MapLeaf& b) {
  return a.dtype == b.dtype && a.block_name == b.block_name &&
         a.block_elements == b.block_elements && a.block_bytes == b.block_bytes;
}

std::string of_two_dtypes(const MapLeaf& a, const MapLeaf& b) {
  const auto said = [](const MapLeaf& leaf) {
    std::string text = in_quotes(leaf.name) + " is " + std::string(dtype_name(leaf.dtype));
    if (leaf.dtype != DType::kOpaque) return text;
    return text + " in blocks of " + std::to_string(leaf.block_elements) + " elements and " +
           std::to_string(leaf.block_bytes) + " bytes, " + in_quotes(leaf.block_name);
  };
  return said(a) + ", and " + said(b) + "; both go into ";
}

MapUnit unit_of(const MapLeaf& leaf) {
  if (leaf.dtype == DType::kOpaque) return {leaf.block_elements, leaf.block_bytes};
  const std::uint32_t bits = dtype_bits(leaf.dtype);
  if (bits >= 8) return {1, bits / 8};
  return bits == 6 ? MapUnit{4, 3} : MapUnit{8 / bits, 1};
}

std::uint64_t elements_of(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) elements *= size;
  return elements;
}

bool settle(std::vector<MapLoop>& loops) {
  for (const MapLoop& loop : loops) {
    if (loop.count == 0) return false;
  }
  std::erase_if(loops, [](const MapLoop& loop) { return loop.count == 1; });
  const auto distance = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  sort_stably(loops,
              [&](const MapLoop& a, const MapLoop& b) { return distance(a.to) > distance(b.to); });
  std::vector<MapLoop> joined;  // innermost first
  for (std::size_t i = loops.size(); i-- > 0;) {
    MapLoop* inner = joined.empty() ? nullptr : &joined.back();
    const auto count = inner ? static_cast<std::int64_t>(inner->count) : 0;
    if (inner && loops[i].from == count * inner->from && loops[i].to == count * inner->to) {
      inner->count *= loops[i].count;
    } else {
      joined.push_back(loops[i]);
    }
  }
  loops.assign(joined.rbegin(), joined.rend());
  return true;
}

bool is_whole_units(const MapPiece& piece, const MapUnit& unit) {
  if (unit.elements == 1) return true;
  const auto size = static_cast<std::int64_t>(unit.elements);
  if (piece.from % size != 0 || piece.to % size != 0 || run_of(piece) % unit.elements != 0) {
    return false;
  }
  return std::all_of(piece.loops.begin(), piece.loops.end() - 1, [&](const MapLoop& loop) {
    return loop.from % size == 0 && loop.to % size == 0;
  });
}

bool is_identity(const MapTarget& target, const MapPiece& piece, std::span<const MapLeaf> leaves) {
  if (piece.source == MapPiece::kZeros || piece.from != 0 || piece.to != 0) return false;
  const std::uint64_t elements = elements_of(target.shape);
  const std::uint64_t own = elements_of(leaves[piece.source].shape);
  if (elements != own) return false;
  if (elements == 1) return true;
  return piece.loops.size() == 1 && run_of(piece) == elements;
}

MapWork work_of(const MapTarget& target, std::span<const MapLeaf> leaves) {
  const bool is_reordered =
      target.pieces.size() != 1 || !is_identity(target, target.pieces.front(), leaves);
  if (!is_reordered) {
    // What is only given another shape is copied, because a rename takes the tensor as it is.
    const bool is_reshaped = leaves[target.pieces.front().source].shape != target.shape;
    return is_reshaped ? MapWork::kBlockGather : MapWork::kRename;
  }
  for (const MapPiece& piece : target.pieces) {
    if (piece.source == MapPiece::kZeros) continue;
    const MapUnit unit = unit_of(leaves[piece.source]);
    const std::uint64_t bytes = run_of(piece) / unit.elements * unit.bytes;
    // A piece that is one run is as good as any, however short.
    if (bytes < kBlockGatherBytes && piece.loops.size() > 1) return MapWork::kStrided;
    if (run_of(piece) == 1 && !piece.loops.empty()) return MapWork::kStrided;
  }
  return MapWork::kBlockGather;
}

bool keeps_elements(const MapTarget& target, std::span<const MapLeaf> leaves) {
  if (target.work == MapWork::kRename) return true;
  return target.pieces.size() == 1 && target.pieces.front().steps.empty() &&
         work_of(target, leaves) == MapWork::kRename;
}

}  // namespace espalier
