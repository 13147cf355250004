// The layout of each element type, for the codecs.
#ifndef ESPALIER_FORMAT_ELEMENT_LAYOUT_H_
#define ESPALIER_FORMAT_ELEMENT_LAYOUT_H_

#include <cstdint>
#include <optional>

#include "espalier/codec/codec.h"
#include "espalier/codec/number_form.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"

namespace espalier {

/// How the elements of `dtype` are built. What is packed within bytes, and opaque blocks, count as
/// bytes.
constexpr ElementLayout element_layout(DType dtype) {
  const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
  const std::uint32_t bits = dtype_bits(dtype) / (is_complex ? 2 : 1);
  if (bits <= 8) return {1, dtype_is_floating(dtype)};
  return {static_cast<std::uint8_t>(bits / 8), dtype_is_floating(dtype)};
}

/// The stored form of a tensor's numbers after StorageRecord::flags. Nothing for flags that do not
/// fit the dtype: its elements have no bytes to swap, no negatives that the form has bits for, or
/// no imaginary part.
constexpr std::optional<NumberForm> number_form(DType dtype, std::uint8_t flags) {
  const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
  const std::uint32_t bits = dtype_bits(dtype) / (is_complex ? 2 : 1);
  NumberForm form;
  form.width = bits % 8 == 0 && bits > 0 ? static_cast<std::uint8_t>(bits / 8) : std::uint8_t{1};
  form.is_swapped = (flags & kStorageSwapped) != 0;
  form.is_conjugated = (flags & kStorageConjugated) != 0;
  if (form.is_conjugated && !is_complex) return std::nullopt;
  if (form.is_swapped && form.width == 1) return std::nullopt;
  if ((flags & kStorageNegated) == 0) return form;
  if (dtype >= DType::kI8 && dtype <= DType::kU64) {
    form.negation = NumberForm::Negation::kInteger;
  } else if (dtype >= DType::kF16 && dtype <= DType::kC128) {
    form.negation = NumberForm::Negation::kFloat;
  } else {
    // Some types of 8 bits have no sign, or no negative zero.
    return std::nullopt;
  }
  return form;
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_ELEMENT_LAYOUT_H_
