// Makes a part of a target from bytes of its sources, which the caller brings one after the other.
#ifndef ESPALIER_MAP_TARGET_MAKER_H_
#define ESPALIER_MAP_TARGET_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/map/plan.h"
#include "espalier/map/target_recipe.h"

namespace espalier {

/// For hosts that wait for bytes, such as a browser. MapTargets makes the same bytes from open
/// files, in parallel and with fewer reads.
///
///   while (const auto need = maker.need()) maker.feed(bytes of need);
///   use(std::move(maker).take());
class TargetMaker {
 public:
  /// Sources are asked for in blocks of so many bytes from their beginning on, except by a target
  /// that is computed from several tensors, and by renames.
  static constexpr std::uint64_t kNeedBytes = std::uint64_t{4} << 20;

  /// For bytes [begin, end) of a target that is a tensor, within it. The plan must outlive the
  /// maker. kLimitExceeded if computing them takes more of its operands at once than `memory`.
  [[nodiscard]] static Result<TargetMaker> make(const MapPlan& plan, std::size_t target,
                                                std::uint64_t begin, std::uint64_t end,
                                                std::uint64_t memory);

  struct Need {
    std::uint32_t leaf = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// The bytes of a source that come next; nothing once all are there.
  std::optional<Need> need() const;

  /// Takes the bytes of need(), which has as many.
  void feed(ByteSpan bytes);

  /// The bytes of the target. need() has nothing more.
  std::vector<std::byte> take() &&;

  const MapRounding& rounding() const { return rounding_; }

 private:
  TargetMaker(const MapPlan& plan, const MapTarget& target, std::uint64_t begin, std::uint64_t end);
  void need_image();
  [[nodiscard]] Result<void> need_operands(std::uint64_t memory);

  struct Step {
    Need need;
    const TargetRecipe::Part* part = nullptr;  // of an image
  };

  const MapPlan* plan_;
  const MapTarget* target_;
  std::uint64_t begin_;
  std::uint64_t end_;
  // The whole elements around these bytes, if numbers change.
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::optional<TargetRecipe> recipe_;
  TargetRecipe::Window window_;   // of the image
  std::vector<std::byte> image_;  // or the bytes themselves
  std::vector<std::vector<std::byte>> operands_;
  std::vector<Step> steps_;
  std::size_t done_ = 0;
  MapRounding rounding_;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_TARGET_MAKER_H_
