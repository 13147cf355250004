// What codecs have to know of each element type.
#ifndef ESPALIER_FORMAT_ELEMENT_LAYOUT_H_
#define ESPALIER_FORMAT_ELEMENT_LAYOUT_H_

#include <cstdint>

#include "espalier/codec/codec.h"
#include "espalier/tree/dtype.h"

namespace espalier {

/// How the elements of `dtype` are built. What is packed within bytes, and opaque blocks, count as
/// bytes.
constexpr ElementLayout element_layout(DType dtype) {
  const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
  const std::uint32_t bits = dtype_bits(dtype) / (is_complex ? 2 : 1);
  if (bits <= 8) return {1, dtype_is_floating(dtype)};
  return {static_cast<std::uint8_t>(bits / 8), dtype_is_floating(dtype)};
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_ELEMENT_LAYOUT_H_
