// Encodes numbers as packed elements of a floating-point type: the way back from decode_elements().
#ifndef ESPALIER_TREE_ENCODE_ELEMENTS_H_
#define ESPALIER_TREE_ENCODE_ELEMENTS_H_

#include <cstdint>
#include <span>

#include "espalier/bytes.h"
#include "espalier/dtype.h"

namespace espalier {

/// Whether encode_elements() makes elements of this type: f16, bf16 and f32.
constexpr bool can_encode(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32;
}

/// Rounds each value once, to nearest, ties to even, and writes it to `out`, packed and
/// little-endian. Subnormals and the sign of zero are kept. A NaN stays a NaN with its sign and the
/// upper bits of its payload, and is quiet. A value that rounds beyond the largest finite number
/// becomes infinite; returns how many finite values did. Does nothing and returns 0 if
/// `can_encode(dtype)` is false or `out` has not exactly the bytes of the values. The result does
/// not depend on the processor's rounding mode. Thread-safe.
std::uint64_t encode_elements(DType dtype, std::span<const double> values, MutableByteSpan out);

}  // namespace espalier

#endif  // ESPALIER_TREE_ENCODE_ELEMENTS_H_
