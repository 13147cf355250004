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
    // The last bits belong to no element, and memory that is read into may hold anything.
    if (unit_bits_ == 1 && runs_ * run_ % 8 != 0) {
      out.back() &= static_cast<std::byte>((1u << (runs_ * run_ % 8)) - 1);
    }
    copy_runs(chunk, *logical, out, 0);
  } else {
    delivered = propagate(logical);
  }
  if (!delivered) delivered.error().path = tensor_path(tensor_);
  return delivered;
}

ReadPlan::Units ReadPlan::units_of(const PlannedChunk& chunk) const {
  const std::uint64_t scale = 8 / unit_bits_;
  return {chunk.begin * scale, (chunk.begin + chunk.length) * scale};
}

// Runs ascend in tensor and result alike, so what a chunk gives lies together in the result.
ReadPlan::Units ReadPlan::result_of(const PlannedChunk& chunk) const {
  const Units held = units_of(chunk);
  const auto before = [&](std::uint64_t unit) {
    const std::uint64_t run = first_run_ending_after(unit);
    if (run == runs_) return runs_ * run_;
    const std::uint64_t begin = run_begin(run);
    return run * run_ + (unit > begin ? unit - begin : 0);
  };
  return {before(held.begin), before(held.end)};
}

Extent ReadPlan::part_extent(std::size_t i) const {
  const Units part = result_of(chunks_[i]);
  const std::uint64_t scale = 8 / unit_bits_;
  const std::uint64_t begin = part.begin / scale;
  return {0, begin, (part.end + scale - 1) / scale - begin};
}

Result<ResultPart> ReadPlan::open_part(std::size_t i, ByteSpan stored, ChunkReader& reader,
                                       std::vector<std::byte>& scratch) const {
  const PlannedChunk& chunk = chunks_[i];
  auto logical = reader.open(tensor_, chunk.chunk - tensor_.first_chunk(), stored);
  if (!logical) {
    logical.error().path = tensor_path(tensor_);
    return propagate(logical);
  }
  const Extent part = part_extent(i);
  if (unit_bits_ == 8 && part.offset / run_ == (part.offset + part.length - 1) / run_) {
    // All of one run: it stands in the chunk as it does in the result.
    const std::uint64_t first =
        std::max(run_begin(first_run_ending_after(chunk.begin)), chunk.begin);
    return ResultPart{part.offset, logical->subspan(static_cast<std::size_t>(first - chunk.begin),
                                                    static_cast<std::size_t>(part.length))};
  }
  scratch.assign(static_cast<std::size_t>(part.length), std::byte{0});
  copy_runs(chunk, *logical, scratch, part.offset);
  return ResultPart{part.offset, scratch};
}

void ReadPlan::copy_runs(const PlannedChunk& chunk, ByteSpan logical, MutableByteSpan out,
                         std::uint64_t out_begin) const {
  const Units held = units_of(chunk);
  const std::uint64_t origin = out_begin * 8 / unit_bits_;
  for (std::uint64_t run = first_run_ending_after(held.begin); run < runs_; ++run) {
    const std::uint64_t run_start = run_begin(run);
    if (run_start >= held.end) break;
    const std::uint64_t begin = std::max(run_start, held.begin);
    const std::uint64_t end = std::min(run_start + run_, held.end);
    const std::uint64_t target = run * run_ + (begin - run_start) - origin;
    if (unit_bits_ == 1) {
      copy_bits(logical.data(), begin - held.begin, out.data(), target, end - begin);
      continue;
    }
    std::memcpy(out.data() + target, logical.data() + (begin - held.begin),
                static_cast<std::size_t>(end - begin));
  }
}

}  // namespace espalier
