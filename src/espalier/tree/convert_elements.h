// Converts a tensor's packed bytes to elements of another type.
#ifndef ESPALIER_TREE_CONVERT_ELEMENTS_H_
#define ESPALIER_TREE_CONVERT_ELEMENTS_H_

#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/error.h"

namespace espalier {

/// Whether convert_elements() knows the way: from every dtype but complex numbers and opaque
/// blocks, to f16, bf16, f32, f64 and the integers of one or more whole bytes.
bool can_convert(DType from, DType to);

/// Converts all elements of `packed`, which are `from`, to those of `to` in `out`, packed and
/// little-endian. To a floating-point type each is rounded once, to nearest, ties to even: also an
/// i64 to a bf16. A NaN stays a NaN, and what is too large becomes infinite, as of
/// encode_elements(). To an integer, nothing is rounded: kInvalidArgument with the element's
/// number, from `first` on, for a fraction, a NaN, an infinity and what is out of range; `out` then
/// has the elements before it. kInvalidArgument if can_convert() says no, or if `out` has another
/// number of elements. Thread-safe.
[[nodiscard]] Result<void> convert_elements(DType from, ByteSpan packed, DType to,
                                            MutableByteSpan out, std::uint64_t first = 0);

}  // namespace espalier

#endif  // ESPALIER_TREE_CONVERT_ELEMENTS_H_
