#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "files/open/reading.h"
#include "files/os/about_file.h"
#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

bool has_strides(const TensorRef& tensor) {
  const StorageRecord* storage = tensor.storage();
  return storage != nullptr && (storage->flags & kStorageStrided) != 0;
}

}  // namespace

CheckpointFile::ChunkBuffer::ChunkBuffer() : state_(std::make_unique<State>()) {}
CheckpointFile::ChunkBuffer::ChunkBuffer(ChunkBuffer&& other) noexcept = default;
CheckpointFile::ChunkBuffer& CheckpointFile::ChunkBuffer::operator=(ChunkBuffer&& other) noexcept =
    default;
CheckpointFile::ChunkBuffer::~ChunkBuffer() = default;

Extent CheckpointFile::stored_extent(const TensorRef& tensor, std::uint32_t i) const {
  const ChunkRecord& chunk = checkpoint_.catalog().tables().chunks[tensor.first_chunk() + i];
  return {chunk.file, chunk.offset, chunk.stored};
}

Result<ByteSpan> CheckpointFile::read_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const {
  const FileEntry& file = checkpoint_.catalog().files()[extent.file];
  if (file.problem) return tl::unexpected<Error>(*file.problem);
  // Never shrunk: chunk sizes vary.
  if (!source_->mapping(extent.file) && memory.size() < extent.length) {
    memory.resize(static_cast<std::size_t>(extent.length));
  }
  auto bytes = source_->read(extent, memory);
  if (bytes) {
    if (auto ok = check_answer(extent, *bytes); !ok) bytes = propagate(ok);
  }
  if (!bytes && bytes.error().file.empty()) bytes.error().file = file.name;
  return bytes;
}

Result<ByteSpan> CheckpointFile::copy_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const {
  const FileEntry& file = checkpoint_.catalog().files()[extent.file];
  if (file.problem) return tl::unexpected<Error>(*file.problem);
  const auto length = static_cast<std::size_t>(extent.length);
  if (memory.size() < length) memory.resize(length);
  const MutableByteSpan copy(memory.data(), length);
  if (auto ok = source_->copy(extent, copy); !ok) {
    ok.error().file = file.name;
    return propagate(ok);
  }
  return ByteSpan(copy);
}

Result<ByteSpan> CheckpointFile::read_chunk(const TensorRef& tensor, std::uint32_t i,
                                            ChunkBuffer& buffer) const {
  return about_file(shared_->path, [&]() -> Result<ByteSpan> {
    if (has_strides(tensor)) return read_strided_chunk(tensor, i, buffer);
    const auto stored = read_layers(stored_extent(tensor, i), tensor.bases(i), buffer,
                                    &CheckpointFile::read_stored);
    auto bytes = stored ? buffer.state_->reader.open(tensor, i, *stored) : propagate(stored);
    if (!bytes) bytes.error().path = tensor_path(tensor);
    return bytes;
  });
}

Result<void> CheckpointFile::patch_chunk(const TensorRef& tensor, std::uint32_t i, std::size_t base,
                                         MutableByteSpan bytes, ChunkBuffer& buffer) const {
  return about_file(shared_->path, [&]() -> Result<void> {
    const auto stored = read_layers(stored_extent(tensor, i), tensor.bases(i).first(base), buffer,
                                    &CheckpointFile::copy_stored);
    auto ok =
        stored ? buffer.state_->reader.patch(tensor, i, base, *stored, bytes) : propagate(stored);
    if (!ok) ok.error().path = tensor_path(tensor);
    return ok;
  });
}

// Reads straight into the result if the bytes are stored raw. Touches no mapping, so a file that is
// cut meanwhile is an error.
Result<void> CheckpointFile::read_planned_chunk(const ReadPlan& plan, std::size_t i,
                                                MutableByteSpan out, ChunkBuffer& buffer) const {
  const Extent& extent = plan.chunks()[i].stored;
  if (const auto direct = plan.direct_offset(i)) {
    const auto length = static_cast<std::size_t>(extent.length);
    const auto target = out.subspan(static_cast<std::size_t>(*direct), length);
    if (auto ok = source_->copy(extent, target); !ok) {
      ok.error().file = checkpoint_.catalog().files()[extent.file].name;
      return ok;
    }
    return plan.deliver(i, ByteSpan(target), out, buffer.state_->reader);
  }
  const auto stored =
      read_layers(extent, plan.chunks()[i].bases, buffer, &CheckpointFile::copy_stored);
  if (!stored) return propagate(stored);
  return plan.deliver(i, *stored, out, buffer.state_->reader);
}

// Part of a whole tensor: a save asks for one chunk at a time, and the chunk is read straight into
// its buffer.
Result<void> CheckpointFile::read_range(const TensorRef& tensor, std::uint64_t offset,
                                        MutableByteSpan out, ChunkBuffer& buffer) const {
  // A producer gives all of its tensor.
  if (const auto all = tensor.raw_extent(); all && offset == 0) source_->announce(*all);
  const std::uint64_t end = std::min(tensor.bytes(), offset + out.size());
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t i = at / kChunkBytes;
    auto bytes = read_chunk(tensor, static_cast<std::uint32_t>(i), buffer);
    if (!bytes) return propagate(bytes);
    const std::uint64_t begin = at - i * kChunkBytes;
    const std::uint64_t count = std::min(bytes->size() - begin, end - at);
    std::copy_n(bytes->data() + begin, count, out.data() + (at - offset));
    at += count;
  }
  return {};
}

// Reads the part of a strided tensor that contains byte `offset`: as many whole steps of one axis
// as kBandBytes hold. Larger parts mean fewer passes over the storage.
Result<void> CheckpointFile::read_band(const TensorRef& tensor, std::uint64_t offset,
                                       ChunkBuffer& buffer) const {
  constexpr std::uint64_t kBandBytes = std::uint64_t{32} << 20;
  const auto shape = tensor.shape();
  std::uint64_t step = tensor.bytes();  // of the divided axis, then of the axes before it
  std::size_t axis = 0;
  for (; axis < shape.size() && step > kBandBytes; ++axis) step /= shape[axis];
  std::vector<Slice> slices(axis);
  buffer.state_->band_begin = 0;
  std::uint64_t band_bytes = tensor.bytes();
  if (axis > 0) {
    const std::uint64_t steps = std::max<std::uint64_t>(1, kBandBytes / step);
    std::uint64_t rest = offset;
    std::uint64_t below = tensor.bytes();
    for (std::size_t i = 0; i < axis; ++i) {
      below /= shape[i];
      const std::uint64_t at = rest / below;
      const std::uint64_t begin = i + 1 < axis ? at : at / steps * steps;
      const std::uint64_t end = i + 1 < axis ? at + 1 : std::min(shape[i], begin + steps);
      slices[i].start = static_cast<std::int64_t>(begin);
      slices[i].stop = static_cast<std::int64_t>(end);
      buffer.state_->band_begin += begin * below;
      rest -= at * below;
      band_bytes = (end - begin) * below;
    }
  }
  buffer.state_->band_of.reset();
  buffer.state_->band.resize(static_cast<std::size_t>(band_bytes));
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  for (std::size_t i = 0; i < plan->chunks().size(); ++i) {
    if (auto ok = read_planned_chunk(*plan, i, buffer.state_->band, buffer); !ok) return ok;
  }
  buffer.state_->band_of = tensor;
  return {};
}

Result<ByteSpan> CheckpointFile::read_strided_chunk(const TensorRef& tensor, std::uint32_t i,
                                                    ChunkBuffer& buffer) const {
  const std::uint64_t begin = i * kChunkBytes;
  const std::uint64_t length = chunk_length(tensor.bytes(), i);
  std::vector<std::byte> joined;
  for (std::uint64_t at = begin;;) {
    const bool has_it = buffer.state_->band_of == tensor && at >= buffer.state_->band_begin &&
                        at - buffer.state_->band_begin < buffer.state_->band.size();
    if (!has_it) {
      if (auto ok = read_band(tensor, at, buffer); !ok) return propagate(ok);
    }
    const auto part = ByteSpan(buffer.state_->band)
                          .subspan(static_cast<std::size_t>(at - buffer.state_->band_begin));
    const auto count = std::min<std::uint64_t>(part.size(), begin + length - at);
    if (count == length) return part.first(static_cast<std::size_t>(count));
    joined.insert(joined.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    at += count;
    if (at == begin + length) break;
  }
  buffer.state_->stored = std::move(joined);
  return ByteSpan(buffer.state_->stored);
}

}  // namespace espalier
