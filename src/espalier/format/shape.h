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

/// Elements of a shape: the product of its axes, 0 if one of them is 0, 1 if there are none;
/// nothing if the product does not fit in a u64.
std::optional<std::uint64_t> shape_elements(std::span<const std::uint64_t> shape);

/// Bytes of a packed tensor. `block` matters for kOpaque only. kTensorInvalid, with a sentence, if the
/// size overflows, if the bits are no whole bytes, or if blocks do not divide the last axis.
Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::uint64_t> shape,
                                   const BlockType& block = {});

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
