#include <algorithm>
#include <tuple>
#include <utility>

#include "espalier/format/element_layout.h"
#include "espalier/format/shape.h"
#include "espalier/format/validator.h"

namespace espalier {

bool Validator::check_shapes() {
  if (!check_ends(t_.shape_ends, t_.dims, ErrorCode::kTensorInvalid, "shapes")) return false;
  pool_facts_.shape_elements.reserve(t_.shape_ends.size());
  for (std::uint32_t i = 0; i < t_.shape_ends.size(); ++i) {
    const auto shape = table_shape(t_, i);
    if (shape.size() > kMaxRank) {
      return bad(ErrorCode::kTensorInvalid,
                 "a tensor has " + counted(shape.size(), "axis") + "; the format allows " +
                     std::to_string(kMaxRank),
                 t_.shape_ends[i]);
    }
    if (shape.size() > limits_.rank) {
      return bad(ErrorCode::kLimitExceeded,
                 "a tensor has " + counted(shape.size(), "axis") + " and Limits::rank allows " +
                     std::to_string(limits_.rank),
                 t_.shape_ends[i]);
    }
    pool_facts_.shape_elements.push_back(shape_elements(shape).value_or(kTooManyElements));
    if (i == 0) continue;
    const auto before = table_shape(t_, i - 1);
    const bool ascending = before.size() != shape.size()
                               ? before.size() < shape.size()
                               : std::lexicographical_compare(before.begin(), before.end(),
                                                              shape.begin(), shape.end());
    if (!ascending) {
      return bad(ErrorCode::kTensorInvalid, "the shape pool is not sorted, or repeats a shape",
                 t_.shape_ends[i]);
    }
  }
  return true;
}

bool Validator::check_blocks() {
  const BlockRecord* before = nullptr;
  // A tensor names its block in 16 bits.
  if (t_.blocks.size() > 0xFFFF) {
    return bad_table(ErrorCode::kTensorInvalid, "there are more than 65535 block types");
  }
  for (const BlockRecord& block : t_.blocks) {
    if (block.name >= t_.text_ends.size() || block.elements == 0 || block.bytes == 0) {
      return bad(ErrorCode::kTensorInvalid, "a block type is malformed", block);
    }
    texts_.mark(block.name);
    if (before != nullptr && std::tie(before->name, before->elements, before->bytes) >=
                                 std::tie(block.name, block.elements, block.bytes)) {
      return bad(ErrorCode::kTensorInvalid, "the block types are not sorted", block);
    }
    before = &block;
  }
  return true;
}

ESPALIER_LOOP_BODY bool Validator::check_tensor(std::uint32_t index) {
  const NodeRecord& node = t_.nodes[index];
  const bool placeholder = node_kind(node) == Kind::kPlaceholder;
  if (node.value >= t_.tensors.size() || node.value > next_tensor_ ||
      (placeholder && node.value != next_tensor_)) {
    return bad_node(ErrorCode::kTensorInvalid, "a node names a tensor out of order", index);
  }
  const TensorRecord& tensor = t_.tensors[node.value];
  if (placeholder != (tensor.first_chunk == kNoChunk)) {
    return bad_node(ErrorCode::kTensorInvalid,
                    placeholder ? "a placeholder has chunks" : "a tensor has no first chunk",
                    index);
  }
  if (node.value < next_tensor_) return true;  // Tied: checked when it was first named.
  ++next_tensor_;

  const auto dtype = dtype_from_number(tensor.dtype);
  if (!dtype) {
    return bad_node(ErrorCode::kTensorInvalid,
                    "a tensor has the unknown dtype " + std::to_string(tensor.dtype), index);
  }
  if (tensor.zero != 0 || tensor.shape >= t_.shape_ends.size() || tensor.block > t_.blocks.size() ||
      (tensor.block != 0) != (*dtype == DType::kOpaque)) {
    return bad_node(ErrorCode::kTensorInvalid, "a tensor's record is malformed", index);
  }
  shapes_.mark(tensor.shape);
  if (tensor.block != 0) blocks_.mark(tensor.block - 1u);
  auto bytes = usual_tensor_bytes(*dtype, pool_facts_.shape_elements[tensor.shape]);
  if (!bytes) {
    auto unusual =
        tensor_bytes(*dtype, table_shape(t_, tensor.shape), table_block(t_, tensor.block));
    if (!unusual) {
      return bad_node(unusual.error().code, std::move(unusual.error().message), index);
    }
    bytes = *unusual;
  }
  return placeholder || check_chunks(index, tensor, *bytes);
}

bool Validator::check_chunks(std::uint32_t index, const TensorRecord& tensor, std::uint64_t bytes) {
  const std::uint64_t count = chunk_count(bytes);
  if (tensor.first_chunk != next_chunk_ || !range_fits(next_chunk_, count, t_.chunks.size())) {
    return bad_node(ErrorCode::kChunkInvalid, "a tensor's chunks are not the next ones", index);
  }
  next_chunk_ += count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const ChunkRecord& chunk = t_.chunks[static_cast<std::size_t>(tensor.first_chunk + i)];
    const std::uint64_t length = chunk_length(bytes, i);
    if (chunk.file >= facts_.files.size() || chunk.zero != 0) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk's record is malformed", chunk, index);
    }
    switch (chunk.codec) {
      case static_cast<std::uint8_t>(Codec::kRaw):
        if (chunk.stored != length) {
          return bad_chunk(ErrorCode::kChunkInvalid, "a raw chunk has the wrong length", chunk,
                           index);
        }
        break;
      case static_cast<std::uint8_t>(Codec::kZstd):
      case static_cast<std::uint8_t>(Codec::kPlanes):
        if (chunk.stored == 0 || chunk.stored >= length) {
          return bad_chunk(ErrorCode::kChunkInvalid,
                           "a compressed chunk is not shorter than its contents", chunk, index);
        }
        if (chunk.codec == static_cast<std::uint8_t>(Codec::kPlanes) &&
            !element_layout(static_cast<DType>(tensor.dtype)).has_planes()) {
          return bad_chunk(ErrorCode::kChunkInvalid,
                           "a chunk is stored as planes and its elements are single bytes", chunk,
                           index);
        }
        used_features_ |= feature_of(chunk.codec);
        break;
      default:
        return bad_chunk(ErrorCode::kChunkInvalid,
                         "a chunk has the unknown codec " + std::to_string(chunk.codec), chunk,
                         index);
    }
    std::uint64_t expected = next_byte_;
    if (i == 0) {
      expected = facts_.placement == Placement::kForeign
                     ? chunk.offset
                     : checked_align(next_byte_, kTensorAlignment).value_or(Error::kNoOffset);
    }
    // A gap could hide bytes, an overlap could show one blob under two names.
    if (chunk.offset != expected || (i > 0 && chunk.file != t_.chunks[tensor.first_chunk].file)) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk is not where the layout puts it", chunk,
                       index);
    }
    const FileEntry& file = facts_.files[chunk.file];
    if (!file.problem &&
        (chunk.offset < file.data_begin || !range_fits(chunk.offset, chunk.stored, file.length))) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk reaches past the end of the file", chunk,
                       index);
    }
    next_byte_ = chunk.offset + chunk.stored;
  }
  return true;
}

bool Validator::check_axes() {
  std::uint64_t next_tensor = 0;
  std::uint64_t used = 0;
  for (const AxesRecord& axes : t_.axes) {
    if (axes.tensor < next_tensor || axes.tensor >= t_.tensors.size() || axes.first != used) {
      return bad(ErrorCode::kTensorInvalid, "axis names are out of order", axes);
    }
    const auto rank = table_shape(t_, t_.tensors[axes.tensor].shape).size();
    if (rank == 0 || !range_fits(used, rank, t_.axis_names.size())) {
      return bad(ErrorCode::kTensorInvalid, "axis names do not fit their tensor", axes);
    }
    next_tensor = std::uint64_t{axes.tensor} + 1;
    used += rank;
  }
  if (used != t_.axis_names.size()) {
    return bad_table(ErrorCode::kTensorInvalid, "some axis names belong to no tensor");
  }
  for (const std::uint32_t& name : t_.axis_names) {
    if (name >= t_.text_ends.size()) {
      return bad(ErrorCode::kTensorInvalid, "an axis name is not in the string pool", name);
    }
    texts_.mark(name);
  }
  return true;
}

}  // namespace espalier
