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

bool Validator::check_tensor(std::uint32_t index) {
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
  if (node.value < next_tensor_) return true;  // Tied: checked at the first node that names it.
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
  if (next_storage_ < t_.storages.size()) {
    bytes = check_storage(index, tensor, *bytes);
    if (!bytes) return false;
  }
  return placeholder || check_chunks(index, tensor, *bytes);
}

// The bytes in the chunks of a tensor, if some tensors have storage records. Checks that no stride
// leads out of the storage, because readers add strides without checks.
std::optional<std::uint64_t> Validator::check_storage(std::uint32_t index,
                                                      const TensorRecord& tensor,
                                                      std::uint64_t bytes) {
  const StorageRecord& storage = t_.storages[next_storage_];
  if (storage.tensor != t_.nodes[index].value) return bytes;
  ++next_storage_;
  const auto dtype = static_cast<DType>(tensor.dtype);
  const auto refuse = [&](std::string_view message) {
    bad_node(ErrorCode::kTensorInvalid, message, index);
    return std::nullopt;
  };
  constexpr std::uint8_t kKnown =
      kStorageStrided | kStorageSwapped | kStorageNegated | kStorageConjugated;
  if (storage.flags == 0 || (storage.flags & ~kKnown) != 0 || tensor.first_chunk == kNoChunk ||
      !number_form(dtype, storage.flags)) {
    return refuse("a tensor's storage form is invalid for its dtype");
  }
  if ((storage.flags & kStorageStrided) == 0) return bytes;
  const auto shape = table_shape(t_, tensor.shape);
  const std::uint64_t width = dtype_bits(dtype) / 8;
  if (dtype_bits(dtype) % 8 != 0 || width == 0 || storage.first_stride != next_stride_ ||
      !range_fits(next_stride_, shape.size(), t_.strides.size())) {
    return refuse("a tensor's strides are malformed");
  }
  next_stride_ += shape.size();
  const auto stored = checked_mul(storage.elements, width);
  std::optional<std::uint64_t> last = storage.offset;
  for (std::size_t axis = 0; axis < shape.size() && last && bytes > 0; ++axis) {
    const auto reach = checked_mul(shape[axis] - 1, t_.strides[storage.first_stride + axis]);
    last = reach ? checked_add(*last, *reach) : std::nullopt;
  }
  if (!stored || *stored > kMaxTensorBytes || !last || (bytes > 0 && *last >= storage.elements)) {
    return refuse("a tensor's strides lead out of its storage");
  }
  // With strides of 0, a few bytes can become any number of elements; totals must not wrap.
  if (bytes > kMaxTensorBytes - strided_bytes_) {
    return refuse("the tensors with strides take more than 2^63 bytes together");
  }
  strided_bytes_ += bytes;
  return stored;
}

// Whether a chunk's offset is valid. In other formats, the chunks of one tensor only have to
// ascend; code that reads several at once relies on that.
inline bool Validator::is_placed(const ChunkRecord& chunk, bool is_first) const {
  if (facts_.placement == Placement::kForeign) {
    return is_first || chunk.file > last_file_ ||
           (chunk.file == last_file_ && chunk.offset >= next_byte_);
  }
  // A gap could hide bytes, an overlap could show one blob under two names.
  const auto expected = is_first ? checked_align(next_byte_, kTensorAlignment) : next_byte_;
  return chunk.file == 0 && expected == chunk.offset;
}

[[gnu::always_inline]] inline bool Validator::check_chunks(std::uint32_t index,
                                                           const TensorRecord& tensor,
                                                           std::uint64_t bytes) {
  const std::uint64_t count = chunk_count(bytes);
  if (tensor.first_chunk != next_chunk_ || !range_fits(next_chunk_, count, t_.chunks.size())) {
    return bad_node(ErrorCode::kChunkInvalid,
                    "a tensor's chunks do not follow those of the tensor before it", index);
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
    if (!is_placed(chunk, i == 0)) {
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
    last_file_ = chunk.file;
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
