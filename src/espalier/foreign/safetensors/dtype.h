// The element types of safetensors and their names.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_
#define ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "espalier/base/error.h"
#include "espalier/tree/dtype.h"

namespace espalier {

/// The DType that safetensors calls `name` ("F32", "F8_E4M3", ...), if it has one of that name.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// What safetensors calls `dtype`; empty if it has no such type.
std::string_view safetensors_dtype_name(DType dtype);

/// The place of `dtype` in the order in which the reference library writes tensors, which is by
/// descending rank: it puts wide elements first, so that a buffer that starts aligned stays
/// aligned. 0 for a dtype that safetensors does not have.
std::uint8_t safetensors_dtype_rank(DType dtype);

/// Bytes of a tensor, by the specification's arithmetic: the product of the axes, multiplied up
/// from the first, must fit 64 bits even if a later axis is 0, and the bits must be whole bytes.
/// kSafetensorsInvalid if not.
Result<std::uint64_t> safetensors_tensor_bytes(DType dtype, std::span<const std::uint64_t> shape);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_
