// The indices that slices of tensors select.
#ifndef ESPALIER_READ_SLICE_H_
#define ESPALIER_READ_SLICE_H_

#include <cstdint>

#include "espalier/checkpoint.h"

namespace espalier {

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
