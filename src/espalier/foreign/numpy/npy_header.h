// The first bytes of a .npy file, NumPy's format for one array.
#ifndef ESPALIER_FOREIGN_NUMPY_NPY_HEADER_H_
#define ESPALIER_FOREIGN_NUMPY_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/error.h"

namespace espalier {

/// What every .npy file begins with.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Everything before the elements of a .npy file (format version 1.0), byte for byte as
/// `numpy.save` of NumPy 1.23 and later writes it. The elements follow packed, in C order,
/// little-endian. A multiple of 64 bytes. kUnrepresentable if NumPy has no such dtype: bf16, f8,
/// types narrower than a byte, opaque blocks.
[[nodiscard]] Result<std::vector<std::byte>> npy_header(DType dtype,
                                                        std::span<const std::uint64_t> shape);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_NPY_HEADER_H_
