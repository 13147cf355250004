#include "espalier/read/plan.h"

#include <algorithm>
#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/format/access.h"

namespace espalier {
namespace {

// Copies `count` bits between positions within bytes. Slow and rare: slices of 2-, 4- and 6-bit
// types.
void copy_bits(const std::byte* from, std::uint64_t from_bit, std::byte* to, std::uint64_t to_bit,
               std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t source = from_bit + i;
    const std::uint64_t target = to_bit + i;
    const bool bit = ((std::to_integer<unsigned>(from[source / 8]) >> (source % 8)) & 1u) != 0;
    const auto mask = std::byte{1} << static_cast<int>(target % 8);
    if (bit) {
      to[target / 8] |= mask;
    } else {
      to[target / 8] &= ~mask;
    }
  }
}

}  // namespace

Result<ReadPlan> ReadPlan::make(TensorRef tensor, std::span<const Slice> slices) {
  if (tensor.is_placeholder()) {
    return fail(ErrorCode::kWrongKind, "a placeholder has no data to read");
  }
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
  if (whole || elements == 0) {
    plan.bytes_ = elements == 0 ? 0 : tensor.bytes();
    plan.run_ = plan.bytes_;
    plan.runs_ = plan.bytes_ > 0 ? 1 : 0;
    plan.find_chunks();
    return plan;
  }

  // From elements to units: bytes, or bits where elements are narrower than that.
  const std::uint32_t bits = dtype_bits(tensor.dtype());
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
    plan.unit_bits_ = 1;
    unit = bits;
    if (tensor.bytes() > std::uint64_t{1} << 59) {
      return fail(ErrorCode::kInvalidSlice, "the tensor is too large to slice within bytes");
    }
  }
  // Innermost axes first: what is whole, or one contiguous piece, joins the run.
  plan.run_ = unit;
  std::uint64_t stride = unit;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const AxisRange& selection = selections[i];
    const std::uint64_t axis = tensor.dtype() == DType::kOpaque && i + 1 == axes.size()
                                   ? axes[i] / tensor.block().elements
                                   : axes[i];
    plan.base_ += selection.begin * stride;
    if (plan.loops_.empty() && plan.run_ == stride &&
        (selection.step == 1 || selection.count == 1)) {
      plan.run_ = selection.count * stride;
    } else if (selection.count > 1) {
      plan.loops_.insert(plan.loops_.begin(), {selection.count, selection.step * stride});
    }
    stride *= axis;
  }
  plan.runs_ = 1;
  for (const Loop& loop : plan.loops_) plan.runs_ *= loop.count;
  const std::uint64_t units = plan.runs_ * plan.run_;
  plan.bytes_ = plan.unit_bits_ == 8 ? units : units / 8 + (units % 8 != 0 ? 1 : 0);
  plan.find_chunks();
  return plan;
}

std::uint64_t ReadPlan::run_begin(std::uint64_t run) const {
  std::uint64_t begin = base_;
  for (std::size_t i = loops_.size(); i-- > 0;) {
    begin += run % loops_[i].count * loops_[i].stride;
    run /= loops_[i].count;
  }
  return begin;
}

// Runs stand in ascending order, so the first one that matters to a chunk is found by halving.
std::uint64_t ReadPlan::first_run_ending_after(std::uint64_t unit) const {
  std::uint64_t low = 0;
  std::uint64_t high = runs_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (run_begin(middle) + run_ > unit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

void ReadPlan::find_chunks() {
  const auto records = table_chunks(tensor_.catalog().tables(),
                                    tensor_.catalog().tables().tensors[tensor_.number()]);
  const std::uint64_t chunk_units = kChunkBytes * 8 / unit_bits_;
  const std::uint64_t tensor_bytes = tensor_.bytes();
  for (std::uint64_t chunk = 0; chunk < records.size(); ++chunk) {
    const std::uint64_t run = first_run_ending_after(chunk * chunk_units);
    if (run == runs_) break;
    chunk = std::max(chunk, run_begin(run) / chunk_units);
    const ChunkRecord& record = records[static_cast<std::size_t>(chunk)];
    chunks_.push_back({tensor_.first_chunk() + static_cast<std::uint32_t>(chunk),
                       {record.file, record.offset, record.stored},
                       chunk * kChunkBytes,
                       static_cast<std::uint32_t>(chunk_length(tensor_bytes, chunk))});
  }
}

// Where the chunk's bytes stand in the result, if they stand there in one piece.
std::optional<std::uint64_t> ReadPlan::landing(const PlannedChunk& chunk) const {
  if (unit_bits_ != 8) return std::nullopt;
  const std::uint64_t run = first_run_ending_after(chunk.begin);
  const std::uint64_t begin = run_begin(run);
  if (begin > chunk.begin || chunk.begin + chunk.length > begin + run_) return std::nullopt;
  return run * run_ + (chunk.begin - begin);
}

std::optional<std::uint64_t> ReadPlan::direct_offset(std::size_t i) const {
  const ChunkRecord& record = tensor_.catalog().tables().chunks[chunks_[i].chunk];
  if (record.codec != static_cast<std::uint8_t>(Codec::kRaw)) return std::nullopt;
  return landing(chunks_[i]);
}

Result<void> ReadPlan::deliver(std::size_t i, ByteSpan stored, MutableByteSpan out,
                               ChunkReader& reader) const {
  const PlannedChunk& chunk = chunks_[i];
  if (out.size() != bytes_) {
    return fail(ErrorCode::kInvalidArgument, "the result has " + counted(bytes_, "byte") +
                                                 " and the buffer " + std::to_string(out.size()));
  }
  const std::uint32_t in_tensor = chunk.chunk - tensor_.first_chunk();
  Result<void> delivered;
  if (const auto at = landing(chunk)) {
    delivered = reader.open_into(tensor_, in_tensor, stored,
                                 out.subspan(static_cast<std::size_t>(*at), chunk.length));
  } else if (auto logical = reader.open(tensor_, in_tensor, stored)) {
    copy_runs(chunk, *logical, out);
  } else {
    delivered = propagate(logical);
  }
  if (!delivered) delivered.error().path = tensor_path(tensor_);
  return delivered;
}

void ReadPlan::copy_runs(const PlannedChunk& chunk, ByteSpan logical, MutableByteSpan out) const {
  const std::uint64_t scale = 8 / unit_bits_;
  const std::uint64_t chunk_begin = chunk.begin * scale;
  const std::uint64_t chunk_end = chunk_begin + chunk.length * scale;
  // The last bits belong to no element, and memory that is read into may hold anything.
  if (unit_bits_ == 1 && runs_ * run_ % 8 != 0) {
    out.back() &= static_cast<std::byte>((1u << (runs_ * run_ % 8)) - 1);
  }
  for (std::uint64_t run = first_run_ending_after(chunk_begin); run < runs_; ++run) {
    const std::uint64_t run_start = run_begin(run);
    if (run_start >= chunk_end) break;
    const std::uint64_t begin = std::max(run_start, chunk_begin);
    const std::uint64_t end = std::min(run_start + run_, chunk_end);
    const std::uint64_t target = run * run_ + (begin - run_start);
    if (unit_bits_ == 1) {
      copy_bits(logical.data(), begin - chunk_begin, out.data(), target, end - begin);
      continue;
    }
    std::memcpy(out.data() + target, logical.data() + (begin - chunk_begin),
                static_cast<std::size_t>(end - begin));
  }
}

}  // namespace espalier
