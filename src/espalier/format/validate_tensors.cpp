#include <algorithm>
#include <tuple>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/codec/codec.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/features.h"
#include "espalier/format/file_set.h"
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
  const std::uint64_t logical = *bytes;
  if (next_storage_ < t_.storages.size()) {
    bytes = check_storage(index, tensor, *bytes);
    if (!bytes) return false;
  }
  if (placeholder) return true;
  return check_chunks(index, tensor, *bytes) &&
         (facts_.placement != Placement::kForeign || check_repeats(index, logical, *bytes));
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
  return stored;
}

// Whether all tensors so far are in proportion to the files. In other formats, tensors can share
// bytes, and repeat them by strides of 0: without a bound, 600 bytes have terabytes of tensors,
// which commands would count, compare and write for days. Each axis of a tensor that repeats bytes
// counts, because 30 axes of length 2 cost 30 loops around each byte.
bool Validator::check_repeats(std::uint32_t index, std::uint64_t logical, std::uint64_t stored) {
  const auto shape = table_shape(t_, t_.tensors[t_.nodes[index].value].shape);
  const auto axes = std::count_if(shape.begin(), shape.end(), [](auto axis) { return axis > 1; });
  const std::uint64_t bytes =
      logical <= stored
          ? stored
          : checked_mul(logical, static_cast<std::uint64_t>(axes)).value_or(kMaxTensorBytes);
  if (bytes <= room_) {
    room_ -= bytes;
    return true;
  }
  return bad_node(ErrorCode::kLimitExceeded,
                  "up to this tensor, the tensors take more than " +
                      counted(room_at_first_, "byte") + ", which a file of " +
                      counted(stored_bytes_, "byte") + " may stand for; Limits::decoded_bytes is " +
                      std::to_string(limits_.decoded_bytes) +
                      "; if they share elements by expand(), clone() them before you save",
                  index);
}

// The bytes that the tensors of files of `stored` bytes may take: as many as those of a compressed
// file of that size, within Limits::decoded_bytes, or all of them.
std::uint64_t Validator::room_of(std::uint64_t stored, const Limits& limits) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 30;
  // A frame of 4 bytes decodes to 128 KiB.
  constexpr std::uint64_t kPerByte = 32'768;
  const std::uint64_t most = std::min(limits.decoded_bytes, kMaxTensorBytes);
  return std::max(stored, std::clamp(checked_mul(stored, kPerByte).value_or(most),
                                     std::min(kLeast, most), most));
}

// Whether a chunk's offset is valid. In other formats, the chunks of one tensor only have to
// ascend; code that reads several at once relies on that.
inline bool Validator::is_placed(const ChunkRecord& chunk, bool is_first) const {
  if (facts_.placement == Placement::kForeign) {
    return is_first || chunk.file > last_file_ ||
           (chunk.file == last_file_ && chunk.offset >= next_byte_);
  }
  if (chunk.file != 0) return true;
  // A gap could hide bytes, an overlap could show one blob under two names.
  const auto expected = is_first ? checked_align(next_byte_, kTensorAlignment) : next_byte_;
  return expected == chunk.offset;
}

// The files themselves were checked when the table was read; see check_file_table().
bool Validator::check_files() {
  files_.mark(0);
  for (const FileRecord& file : t_.files) {
    if (file.name >= t_.text_ends.size()) {
      return bad(ErrorCode::kIndexInvalid, "the name of a file is not in the string pool", file);
    }
    texts_.mark(file.name);
  }
  return true;
}

// Code that reads several chunks of a tensor at once relies on this.
[[gnu::cold]] bool Validator::check_referred(std::uint32_t index,
                                             std::span<const ChunkRecord> chunks) {
  referred_.clear();
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].file != 0) referred_.push_back(i);
  }
  sort_numbers(referred_, [&](std::uint32_t a, std::uint32_t b) {
    const ChunkRecord& x = chunks[a];
    const ChunkRecord& y = chunks[b];
    return x.file != y.file ? x.file < y.file : x.offset < y.offset;
  });
  for (std::size_t i = 1; i < referred_.size(); ++i) {
    const ChunkRecord& before = chunks[referred_[i - 1]];
    const ChunkRecord& chunk = chunks[referred_[i]];
    if (before.file == chunk.file && before.offset + before.stored > chunk.offset) {
      return bad_node(ErrorCode::kChunkInvalid, "two chunks of a tensor share bytes of a file",
                      index);
    }
  }
  return true;
}

// Of a chunk that is not raw, or of a base.
bool Validator::check_compressed(std::uint32_t index, const TensorRecord& tensor,
                                 std::uint64_t length, const ChunkRecord& chunk) {
  const std::uint64_t feature = feature_of(chunk.codec);
  if (feature == 0) {
    return bad_chunk(ErrorCode::kChunkInvalid,
                     "a chunk has the unknown codec " + std::to_string(chunk.codec), chunk, index);
  }
  if (chunk.stored == 0 || chunk.stored >= length) {
    return bad_chunk(ErrorCode::kChunkInvalid,
                     "a compressed chunk is not shorter than its contents", chunk, index);
  }
  if (chunk.codec == static_cast<std::uint8_t>(Codec::kPlanes) &&
      !element_layout(static_cast<DType>(tensor.dtype)).has_planes()) {
    return bad_chunk(ErrorCode::kChunkInvalid,
                     "a chunk is stored as planes and its elements are single bytes", chunk, index);
  }
  used_features_ |= feature;
  return true;
}

// Whether a base in file 0 repeats the record of a chunk before: no byte of our own file may belong
// to no chunk.
bool Validator::is_own_chunk(const ChunkRecord& base) const {
  const auto found = std::lower_bound(
      own_.begin(), own_.end(), base.offset,
      [&](std::uint32_t chunk, std::uint64_t offset) { return t_.chunks[chunk].offset < offset; });
  return found != own_.end() && t_.chunks[*found] == base;
}

// The bases of a patch: each is what the record before it is applied to. So the whole recipe stands
// in one index, and the work for a chunk has a bound.
bool Validator::check_patch(std::uint32_t index, const TensorRecord& tensor, std::uint64_t length,
                            std::uint32_t number) {
  const std::uint32_t first = next_base_;
  pool_facts_.patched.push_back({number, first});
  const ChunkRecord* record = &t_.chunks[number];
  while (record->is_patch()) {
    if (next_base_ == t_.bases.size()) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a patch has no base", *record, index);
    }
    record = &t_.bases[next_base_++];
    const auto refuse = [&](std::string_view message) {
      return bad_chunk(ErrorCode::kChunkInvalid, message, *record, index);
    };
    if (next_base_ - first > kMaxPatches) return refuse("a chunk has more than 32 patches");
    if (record->file >= facts_.files.size() || record->zero != 0) {
      return refuse("the record of a base is malformed");
    }
    if (record->codec == static_cast<std::uint8_t>(Codec::kRaw)) {
      if (record->stored != length) return refuse("a raw base has the wrong length");
    } else if (!check_compressed(index, tensor, length, *record)) {
      return false;
    }
    if (record->file == 0) {
      if (!is_own_chunk(*record)) return refuse("a base in this file is no chunk before its patch");
      continue;
    }
    if (!range_fits(record->offset, record->stored, facts_.files[record->file].length)) {
      return refuse("a base reaches past the end of its file");
    }
    files_.mark(record->file);
    used_features_ |= kFeatureOtherFiles;
  }
  return true;
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
  const bool is_canonical = facts_.placement == Placement::kCanonical;
  bool is_referred_before = false;
  bool has_referred = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const ChunkRecord& chunk = t_.chunks[static_cast<std::size_t>(tensor.first_chunk + i)];
    const std::uint64_t length = chunk_length(bytes, i);
    if (chunk.file >= facts_.files.size() || chunk.zero != 0) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk's record is malformed", chunk, index);
    }
    if (chunk.codec == static_cast<std::uint8_t>(Codec::kRaw)) {
      if (chunk.stored != length) {
        return bad_chunk(ErrorCode::kChunkInvalid, "a raw chunk has the wrong length", chunk,
                         index);
      }
    } else if (!check_compressed(index, tensor, length, chunk)) {
      return false;
    }
    const bool is_referred = is_canonical && chunk.file != 0;
    if (!is_placed(chunk, i == 0 || is_referred_before)) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk is not where the layout puts it", chunk,
                       index);
    }
    const FileEntry& file = facts_.files[chunk.file];
    // Our own files say how long the others are.
    if ((!file.problem || is_canonical) &&
        (chunk.offset < file.data_begin || !range_fits(chunk.offset, chunk.stored, file.length))) {
      return bad_chunk(ErrorCode::kChunkInvalid, "a chunk reaches past the end of the file", chunk,
                       index);
    }
    if (chunk.is_patch() &&
        !check_patch(index, tensor, length, static_cast<std::uint32_t>(tensor.first_chunk + i))) {
      return false;
    }
    is_referred_before = is_referred;
    if (is_referred) {
      has_referred = true;
      files_.mark(chunk.file);
      used_features_ |= kFeatureOtherFiles;
      continue;
    }
    if (!t_.bases.empty()) own_.push_back(static_cast<std::uint32_t>(tensor.first_chunk + i));
    next_byte_ = chunk.offset + chunk.stored;
    last_file_ = chunk.file;
  }
  return !has_referred || check_referred(index, t_.chunks.subspan(tensor.first_chunk,
                                                                  static_cast<std::size_t>(count)));
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
