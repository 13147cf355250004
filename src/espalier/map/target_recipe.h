// How a target is put together: an image of bytes of its sources, in which numbers then change.
#ifndef ESPALIER_MAP_TARGET_RECIPE_H_
#define ESPALIER_MAP_TARGET_RECIPE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/map/compute.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/piece_copy.h"
#include "espalier/map/plan.h"

namespace espalier {

/// The pieces of an image, in bytes. Const use is thread-safe.
class TargetRecipe {
 public:
  using Window = PieceCopy::Window;
  struct Part {
    PieceCopy copy;
    std::uint32_t source;
    /// That of the recipe, which must outlive it.
    const MapPiece* piece;
  };

  /// Of an image of so many elements, which `unit` says the size of. The pieces must outlive it.
  TargetRecipe(std::span<const MapPiece> pieces, std::uint64_t elements, const MapUnit& unit);

  /// The image of a target that has pieces. The plan must outlive it.
  static TargetRecipe of(const MapPlan& plan, const MapTarget& target);

  std::uint64_t bytes() const { return bytes_; }
  std::span<const Part> parts() const { return parts_; }
  /// The parts that are not zeros and have bytes in the window.
  std::vector<const Part*> parts_in(const Window& window) const;
  /// Writes the zeros of a window; `out` is the window.
  void fill_zeros(const Window& window, std::byte* out) const;

 private:
  std::uint64_t bytes_ = 0;
  std::vector<Part> parts_;
};

/// Whether the numbers of a target that has pieces are not those of its image.
bool changes_numbers(const MapPlan& plan, const MapTarget& target);

/// The dtype of the image of such a target; nothing if all of it is zero.
std::optional<DType> image_dtype(const MapPlan& plan, const MapTarget& target);

/// Computes elements of such a target from `first` on; `image` has those of the image, and `out`
/// the bytes of the target.
MapRounding compute_image(const MapPlan& plan, const MapTarget& target, const TargetRecipe& recipe,
                          std::uint64_t first, ByteSpan image, MutableByteSpan out);

}  // namespace espalier

#endif  // ESPALIER_MAP_TARGET_RECIPE_H_
