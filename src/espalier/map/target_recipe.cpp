#include "espalier/map/target_recipe.h"

#include <algorithm>
#include <cstring>

#include "espalier/map/key_map_parts.h"

namespace espalier {
namespace {

const MapPiece* first_moved(const MapTarget& target) {
  const auto found =
      std::find_if(target.pieces.begin(), target.pieces.end(),
                   [](const MapPiece& piece) { return piece.source != MapPiece::kZeros; });
  return found == target.pieces.end() ? nullptr : &*found;
}

}  // namespace

TargetRecipe::TargetRecipe(std::span<const MapPiece> pieces, std::uint64_t elements,
                           const MapUnit& unit)
    : bytes_(elements / unit.elements * unit.bytes) {
  parts_.reserve(pieces.size());
  for (const MapPiece& piece : pieces) {
    parts_.push_back({PieceCopy(piece, unit.elements, unit.bytes), piece.source, &piece});
  }
}

TargetRecipe TargetRecipe::of(const MapPlan& plan, const MapTarget& target) {
  const MapPiece* const source = first_moved(target);
  const MapUnit unit = source != nullptr
                           ? unit_of(plan.leaves()[source->source])
                           : MapUnit{1, std::max<std::uint64_t>(1, dtype_bits(target.dtype) / 8)};
  return {target.pieces, elements_of(target.shape), unit};
}

std::vector<const TargetRecipe::Part*> TargetRecipe::parts_in(const Window& window) const {
  std::vector<const Part*> found;
  for (const Part& part : parts_) {
    const Window own = part.copy.target();
    if (part.source == MapPiece::kZeros || own.begin >= window.end || window.begin >= own.end) {
      continue;
    }
    found.push_back(&part);
  }
  return found;
}

void TargetRecipe::fill_zeros(const Window& window, std::byte* out) const {
  for (const Part& part : parts_) {
    if (part.source != MapPiece::kZeros) continue;
    part.copy.for_each_run(window, [&](const Window& run) {
      std::memset(out + (run.begin - window.begin), 0,
                  static_cast<std::size_t>(run.end - run.begin));
    });
  }
}

bool changes_numbers(const MapPlan& plan, const MapTarget& target) {
  return std::any_of(target.pieces.begin(), target.pieces.end(), [&](const MapPiece& piece) {
    return !piece.steps.empty() ||
           (piece.source != MapPiece::kZeros && plan.leaves()[piece.source].dtype != target.dtype);
  });
}

std::optional<DType> image_dtype(const MapPlan& plan, const MapTarget& target) {
  const MapPiece* const source = first_moved(target);
  if (source == nullptr) return std::nullopt;
  return plan.leaves()[source->source].dtype;
}

MapRounding compute_image(const MapPlan& plan, const MapTarget& target, const TargetRecipe& recipe,
                          std::uint64_t first, ByteSpan image, MutableByteSpan out) {
  const MapPiece* const source = first_moved(target);
  if (source == nullptr) {
    std::memset(out.data(), 0, out.size());
    return {};
  }
  const DType from = plan.leaves()[source->source].dtype;
  const bool is_uniform =
      std::all_of(target.pieces.begin(), target.pieces.end(), [&](const MapPiece& piece) {
        return piece.source != MapPiece::kZeros && piece.steps == source->steps;
      });
  if (is_uniform) return compute(from, image, source->steps, target.dtype, out);
  const std::uint64_t from_bytes = dtype_bits(from) / 8;
  const std::uint64_t to_bytes = dtype_bits(target.dtype) / 8;
  const TargetRecipe::Window window{first * from_bytes, first * from_bytes + image.size()};
  MapRounding rounding;
  for (const TargetRecipe::Part& part : recipe.parts()) {
    part.copy.for_each_run(window, [&](const TargetRecipe::Window& run) {
      const std::uint64_t begin = run.begin - window.begin;
      const std::uint64_t size = run.end - run.begin;
      const auto into = out.subspan(static_cast<std::size_t>(begin / from_bytes * to_bytes),
                                    static_cast<std::size_t>(size / from_bytes * to_bytes));
      if (part.source == MapPiece::kZeros) {
        std::memset(into.data(), 0, into.size());
        return;
      }
      const auto in =
          image.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
      rounding += compute(from, in, part.piece->steps, target.dtype, into);
    });
  }
  return rounding;
}

}  // namespace espalier
