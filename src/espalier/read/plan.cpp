#include "espalier/read/plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/codec/codec.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/read/slice.h"

namespace espalier {

Result<ReadPlan> ReadPlan::make(TensorRef tensor, std::span<const Slice> slices) {
  if (tensor.is_placeholder()) {
    return fail(ErrorCode::kWrongKind, "a placeholder has no data to read");
  }
  if (auto ok = check_readable(tensor); !ok) return propagate(ok);
  const auto axes = tensor.shape();
  if (slices.size() > axes.size()) {
    return fail(ErrorCode::kInvalidSlice, "the read has " + counted(slices.size(), "slice") +
                                              " and the tensor has " +
                                              counted(axes.size(), "axis"));
  }
  ReadPlan plan(tensor);
  plan.shape_.assign(axes.begin(), axes.end());
  std::vector<AxisRange> selections;
  bool whole = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Slice slice = i < slices.size() ? slices[i] : Slice{};
    if (slice.step <= 0) {
      return fail(ErrorCode::kInvalidSlice,
                  "the step of axis " + std::to_string(i) + " is not positive");
    }
    selections.push_back(resolve(slice, axes[i]));
    plan.shape_[i] = selections.back().count;
    whole = whole && selections.back().count == axes[i];
  }
  const std::uint64_t elements = shape_elements(plan.shape_).value_or(0);
  const StorageRecord* storage = tensor.storage();
  const bool is_strided = storage != nullptr && (storage->flags & kStorageStrided) != 0;
  if (elements == 0 || (whole && !is_strided)) {
    plan.bytes_ = elements == 0 ? 0 : tensor.bytes();
    plan.copy_ = StridedCopy(8, 0, plan.bytes_, {});
    plan.find_chunks();
    return plan;
  }

  // Converts elements to units: bytes, or bits if elements are narrower.
  const std::uint32_t bits = dtype_bits(tensor.dtype());
  std::uint32_t unit_bits = 8;
  std::uint64_t unit = bits / 8;
  if (tensor.dtype() == DType::kOpaque) {
    const BlockType block = tensor.block();
    AxisRange& last = selections.back();
    if ((last.step != 1 && last.count > 1) || last.begin % block.elements != 0 ||
        last.count % block.elements != 0) {
      return fail(ErrorCode::kInvalidSlice,
                  "a slice of the last axis must begin and end at whole blocks of " +
                      counted(block.elements, "element"));
    }
    last = {last.begin / block.elements, last.count / block.elements, 1};
    unit = block.bytes;
  } else if (bits % 8 != 0) {
    unit_bits = 1;
    unit = bits;
    if (tensor.bytes() > std::uint64_t{1} << 59) {
      return fail(ErrorCode::kInvalidSlice, "the tensor is too large for slices that split bytes");
    }
  }
  std::vector<CopyLoop> loops;
  const std::span<const std::uint64_t> strides =
      is_strided ? tensor.catalog().tables().strides.subspan(storage->first_stride, axes.size())
                 : std::span<const std::uint64_t>();
  std::uint64_t base = is_strided ? storage->offset * unit : 0;
  std::uint64_t packed = unit;
  std::uint64_t to = unit;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const AxisRange& selection = selections[i];
    const std::uint64_t from = is_strided ? strides[i] * unit : packed;
    base += selection.begin * from;
    // A step beyond the axis is never taken, and may be too large to multiply.
    loops.push_back({selection.count, selection.count > 1 ? selection.step * from : 0, to});
    const bool is_blocks = tensor.dtype() == DType::kOpaque && i + 1 == axes.size();
    packed *= is_blocks ? axes[i] / tensor.block().elements : axes[i];
    to *= selection.count;
  }
  plan.copy_ = StridedCopy(unit_bits, base, unit, std::move(loops));
  plan.bytes_ = plan.copy_.bytes();
  plan.find_chunks();
  return plan;
}

void ReadPlan::find_chunks() {
  const auto records = table_chunks(tensor_.catalog().tables(), tensor_.number());
  const std::uint64_t storage_bytes = tensor_.storage_bytes();
  for (std::uint32_t i = 0; i < records.size(); ++i) {
    const std::uint64_t begin = i * kChunkBytes;
    const std::uint64_t length = chunk_length(storage_bytes, i);
    if (!copy_.needs(begin, length)) continue;
    chunks_.push_back({tensor_.first_chunk() + i,
                       {records[i].file, records[i].offset, records[i].stored},
                       begin,
                       static_cast<std::uint32_t>(length),
                       tensor_.bases(i)});
  }
  // An Espalier file may have some here and some in other files; see Validator::check_referred().
  if (tensor_.catalog().files().size() == 1) return;
  std::vector<std::uint32_t> order(chunks_.size());
  std::iota(order.begin(), order.end(), 0u);
  sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) {
    const Extent& x = chunks_[a].stored;
    const Extent& y = chunks_[b].stored;
    return x.file != y.file ? x.file < y.file : x.offset < y.offset;
  });
  std::vector<PlannedChunk> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t i : order) sorted.push_back(chunks_[i]);
  chunks_ = std::move(sorted);
}

std::optional<std::uint64_t> ReadPlan::direct_offset(std::size_t i) const {
  const ChunkRecord& record = tensor_.catalog().tables().chunks[chunks_[i].chunk];
  if (record.codec != static_cast<std::uint8_t>(Codec::kRaw)) return std::nullopt;
  return copy_.landing(chunks_[i].begin, chunks_[i].length);
}

Result<void> ReadPlan::deliver(std::size_t i, StoredLayers stored, MutableByteSpan out,
                               ChunkReader& reader) const {
  const PlannedChunk& chunk = chunks_[i];
  if (out.size() != bytes_) {
    return fail(ErrorCode::kInvalidArgument, "the result has " + counted(bytes_, "byte") +
                                                 " and the buffer " + std::to_string(out.size()));
  }
  const std::uint32_t in_tensor = chunk.chunk - tensor_.first_chunk();
  Result<void> delivered;
  if (const auto at = copy_.landing(chunk.begin, chunk.length)) {
    delivered = reader.open_into(tensor_, in_tensor, stored,
                                 out.subspan(static_cast<std::size_t>(*at), chunk.length));
  } else if (auto logical = reader.open(tensor_, in_tensor, stored)) {
    copy_.clear_end(out);
    copy_.copy(chunk.begin, *logical, out);
  } else {
    delivered = propagate(logical);
  }
  if (!delivered) delivered.error().path = tensor_path(tensor_);
  return delivered;
}

Extent ReadPlan::part_extent(std::size_t i) const {
  const auto part = copy_.stretch(chunks_[i].begin, chunks_[i].length);
  return {0, part.begin, part.length};
}

Result<ResultPart> ReadPlan::open_part(std::size_t i, StoredLayers stored, ChunkReader& reader,
                                       std::vector<std::byte>& scratch) const {
  const PlannedChunk& chunk = chunks_[i];
  auto logical = reader.open(tensor_, chunk.chunk - tensor_.first_chunk(), stored);
  if (!logical) {
    logical.error().path = tensor_path(tensor_);
    return propagate(logical);
  }
  return copy_.part(chunk.begin, *logical, scratch);
}

}  // namespace espalier
