// Parses slices such as `0:4,:,::2`.
#ifndef ESPALIER_CLI_SELECTION_SLICE_SPEC_H_
#define ESPALIER_CLI_SELECTION_SLICE_SPEC_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"

namespace espalier::cli {

/// One part for each of the first axes, separated by commas. A part is `start:stop:step` as in
/// Python: each number is optional, negative numbers count from the end, and the step is positive.
/// Or it is a single index, which keeps the axis with length 1. The empty spec selects the whole
/// tensor.
class SliceSpec {
 public:
  SliceSpec() = default;
  /// kInvalidSlice names the part that is not a slice.
  [[nodiscard]] static Result<SliceSpec> parse(std::string_view text);

  /// The slices for a tensor of this shape. kInvalidSlice if it has fewer axes, or if an index
  /// (unlike start and stop) is beyond its axis.
  [[nodiscard]] Result<std::span<const Slice>> fit(std::span<const std::uint64_t> shape) const;

 private:
  std::vector<Slice> slices_;
  std::vector<bool> is_index_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_SLICE_SPEC_H_
