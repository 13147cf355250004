// The element types of safetensors and their names.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_
#define ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "espalier/dtype.h"
#include "espalier/error.h"

namespace espalier {

/// The DType with the safetensors name `name` ("F32", "F8_E4M3", ...), if there is one.
std::optional<DType> dtype_from_safetensors(std::string_view name);

/// The safetensors name of `dtype`; empty if safetensors lacks it.
std::string_view safetensors_dtype_name(DType dtype);

/// The rank of `dtype`. The reference library writes tensors by descending rank: wide elements come
/// first, so a buffer that starts aligned stays aligned. 0 if safetensors lacks the dtype.
std::uint8_t safetensors_dtype_rank(DType dtype);

/// Bytes of a tensor by the specification's arithmetic. The product of the axes, multiplied from
/// the first on, must fit 64 bits even if a later axis is 0, and the bits must be whole bytes.
/// kSafetensorsInvalid if not.
[[nodiscard]] Result<std::uint64_t> safetensors_tensor_bytes(DType dtype,
                                                             std::span<const std::uint64_t> shape);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_DTYPE_H_
