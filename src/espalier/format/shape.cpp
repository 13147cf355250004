#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/dtype.h"

namespace espalier {

Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::uint64_t> shape,
                                   const BlockType& block) {
  const auto elements = shape_elements(shape);
  if (!elements) {
    return fail(ErrorCode::kTensorInvalid, "the shape has 2^64 elements or more");
  }
  std::optional<std::uint64_t> bytes;
  if (dtype == DType::kOpaque) {
    if (block.elements == 0 || block.bytes == 0) {
      return fail(ErrorCode::kTensorInvalid, "an opaque tensor needs a block type");
    }
    if (shape.empty() || shape.back() % block.elements != 0) {
      return fail(ErrorCode::kTensorInvalid,
                  "the last axis of an opaque tensor must be a multiple of the " +
                      counted(block.elements, "element") + " in a block");
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
        return fail(ErrorCode::kTensorInvalid, "a " + std::string(dtype_name(dtype)) +
                                                   " tensor of " + counted(*elements, "element") +
                                                   " does not fill whole bytes; pad its last axis");
      }
      bytes = checked_mul(*elements / 8, bits);
      if (bytes) bytes = checked_add(*bytes, rest_bits / 8);
    }
  }
  if (!bytes || *bytes > kMaxTensorBytes) {
    return fail(ErrorCode::kTensorInvalid, "the tensor has 2^63 bytes or more");
  }
  return *bytes;
}

}  // namespace espalier
