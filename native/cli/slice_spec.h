// Slices as people write them: `0:4,:,::2`.
#ifndef ESPALIER_CLI_SLICE_SPEC_H_
#define ESPALIER_CLI_SLICE_SPEC_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/read/slice.h"

namespace espalier::cli {

/// One part for each of the first axes, separated by commas: `start:stop:step` as in Python (each
/// may be left out; negative numbers count from the end; the step is positive), or a single index,
/// which keeps the axis, with length 1. Whole when empty.
class SliceSpec {
 public:
  SliceSpec() = default;
  /// kInvalidSlice says which part is none.
  static Result<SliceSpec> parse(std::string_view text);

  /// The slices for a tensor of this shape. kInvalidSlice if it has fewer axes, or if an index
  /// (unlike start and stop) is beyond its axis.
  Result<std::span<const Slice>> fit(std::span<const std::uint64_t> shape) const;

 private:
  std::vector<Slice> slices_;
  std::vector<bool> is_index_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SLICE_SPEC_H_
