// Slices of tensors.
#ifndef ESPALIER_READ_SLICE_H_
#define ESPALIER_READ_SLICE_H_

#include <cstdint>
#include <optional>

namespace espalier {

/// The indices of one axis to read, as in Python's `start:stop:step`: negative numbers count from
/// the end, a missing one means all the way, and numbers beyond the axis are cut to it. `step` must
/// be positive.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

/// The indices that a slice selects: `count` of them from `begin` on, `step` apart.
struct AxisRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;
};

/// The indices that `slice`, whose step must be positive, selects on an axis of `length` elements.
AxisRange resolve(const Slice& slice, std::uint64_t length);

}  // namespace espalier

#endif  // ESPALIER_READ_SLICE_H_
