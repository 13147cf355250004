// How many elements, bytes and chunks a tensor has: checked arithmetic over shapes from outside.
#ifndef ESPALIER_FORMAT_SHAPE_H_
#define ESPALIER_FORMAT_SHAPE_H_

#include <cstdint>
#include <optional>
#include <span>

#include "espalier/base/error.h"
#include "espalier/format/tables.h"
#include "espalier/tree/dtype.h"

namespace espalier {

/// Bytes of a tensor stay below 2^63, so that aligning and adding positions cannot wrap.
inline constexpr std::uint64_t kMaxTensorBytes = (std::uint64_t{1} << 63) - 1;

/// Elements of a shape: the product of its axes, 0 if one of them is 0, 1 if there are none;
/// nothing if the product does not fit in a u64.
inline std::optional<std::uint64_t> shape_elements(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::uint64_t axis : shape) {
    overflow |= __builtin_mul_overflow(elements, axis, &elements);
    empty |= axis == 0;
  }
  // An axis of 0 decides, so that [0, 2^63, 2^63] is empty and not an overflow.
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional(elements);
}

/// Bytes of a packed tensor. `block` matters for kOpaque only. kTensorInvalid, with a sentence, if
/// the size overflows, if the bits are no whole bytes, or if blocks do not divide the last axis.
[[nodiscard]] Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::uint64_t> shape,
                                                 const BlockType& block = {});

/// The same, quickly, for the usual case: elements of one or more whole bytes and a valid size.
/// Nothing in every other case, for which tensor_bytes() has the answer.
constexpr std::optional<std::uint64_t> usual_tensor_bytes(DType dtype, std::uint64_t elements) {
  const std::uint32_t bits = dtype_bits(dtype);
  std::uint64_t bytes = 0;
  if (bits == 0 || bits % 8 != 0 ||
      __builtin_mul_overflow(elements, std::uint64_t{bits / 8}, &bytes) ||
      bytes > kMaxTensorBytes) {
    return std::nullopt;
  }
  return bytes;
}

inline std::optional<std::uint64_t> usual_tensor_bytes(DType dtype,
                                                       std::span<const std::uint64_t> shape) {
  const auto elements = shape_elements(shape);
  return elements ? usual_tensor_bytes(dtype, *elements) : std::nullopt;
}

/// Chunks that hold `bytes` bytes.
constexpr std::uint64_t chunk_count(std::uint64_t bytes) {
  return bytes / kChunkBytes + (bytes % kChunkBytes != 0 ? 1 : 0);
}

/// Logical bytes of chunk number `chunk` (from 0) of a tensor of `bytes` bytes.
constexpr std::uint64_t chunk_length(std::uint64_t bytes, std::uint64_t chunk) {
  const std::uint64_t left = bytes - chunk * kChunkBytes;
  return left < kChunkBytes ? left : kChunkBytes;
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_SHAPE_H_
