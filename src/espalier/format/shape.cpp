#include "espalier/format/shape.h"

#include <algorithm>

#include "espalier/base/checked.h"

namespace espalier {

std::optional<std::uint64_t> shape_elements(std::span<const std::uint64_t> shape) {
  // First, so that [0, 2^63, 2^63] is empty and not an overflow.
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  std::uint64_t elements = 1;
  for (const std::uint64_t axis : shape) {
    const auto product = checked_mul(elements, axis);
    if (!product) return std::nullopt;
    elements = *product;
  }
  return elements;
}

Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::uint64_t> shape,
                                   const BlockType& block) {
  // Positions stay below 2^63, so that aligning and adding them cannot wrap.
  constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 63) - 1;
  const auto elements = shape_elements(shape);
  if (!elements) {
    return fail(ErrorCode::kTensorInvalid, "the shape has more than 2^64 elements");
  }
  std::optional<std::uint64_t> bytes;
  if (dtype == DType::kOpaque) {
    if (block.elements == 0 || block.bytes == 0) {
      return fail(ErrorCode::kTensorInvalid, "an opaque tensor needs a block type");
    }
    if (shape.empty() || shape.back() % block.elements != 0) {
      return fail(ErrorCode::kTensorInvalid,
                  "the last axis of an opaque tensor must be a multiple of the " +
                      std::to_string(block.elements) + " elements in a block");
    }
    bytes = checked_mul(*elements / block.elements, block.bytes);
  } else {
    const std::uint64_t bits = dtype_bits(dtype);
    if (bits % 8 == 0) {
      bytes = checked_mul(*elements, bits / 8);
    } else {
      // Eight elements fill `bits` bytes: dividing first keeps the product small.
      const std::uint64_t rest_bits = *elements % 8 * bits;
      if (rest_bits % 8 != 0) {
        return fail(ErrorCode::kTensorInvalid,
                    "a " + std::string(dtype_name(dtype)) + " tensor of " +
                        std::to_string(*elements) +
                        " elements does not fill whole bytes; pad its last axis");
      }
      bytes = checked_mul(*elements / 8, bits);
      if (bytes) bytes = checked_add(*bytes, rest_bits / 8);
    }
  }
  if (!bytes || *bytes > kMaxBytes) {
    return fail(ErrorCode::kTensorInvalid, "the tensor has more than 2^63 bytes");
  }
  return *bytes;
}

}  // namespace espalier
