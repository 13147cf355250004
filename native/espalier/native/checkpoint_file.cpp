#include "espalier/native/checkpoint_file.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/native/huge_pages.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/read/plan.h"
#include "espalier/read/to_value.h"

namespace espalier {
namespace {

// Files open in pieces of at most this many bytes when they are not mapped.
constexpr std::uint64_t kOpenPieceBytes = std::uint64_t{4} << 20;

// Memory for tensor bytes, uninitialised; empty if it cannot be had.
std::shared_ptr<std::byte[]> allocate(std::uint64_t size) {
  const auto narrow = narrow_size(size);
  if (!narrow) return nullptr;
  return std::shared_ptr<std::byte[]>(new (std::nothrow) std::byte[*narrow]);
}

tl::unexpected<Error> no_memory(const TensorRef& tensor, std::uint64_t bytes) {
  return fail(ErrorCode::kOutOfMemory,
              "cannot allocate " + counted(bytes, "byte") +
                  " for a tensor; read slices of it, or map the file",
              Error::kNoOffset, tensor_path(tensor));
}

template <class Machine>
Result<void> feed_all(Machine& machine, const Source& source) {
  std::vector<std::byte> scratch;
  while (!machine.needs().empty()) {
    Extent extent = machine.needs().front();
    if (!source.mapping()) {
      extent.length = std::min(extent.length, kOpenPieceBytes);
      scratch.resize(static_cast<std::size_t>(extent.length));
    }
    source.prefetch(extent);
    auto bytes = source.read(extent, scratch);
    if (!bytes) return propagate(bytes);
    if (auto ok = machine.feed(extent, *bytes); !ok) return ok;
  }
  return {};
}

}  // namespace

Result<CheckpointFile> CheckpointFile::open(const std::filesystem::path& path,
                                            const OpenFileOptions& options) try {
  auto source = open_source(path, options.access);
  if (!source) return propagate(source);
  AnyOpener opener({.file_size = (*source)->size(),
                    .limits = options.limits,
                    .allocator = huge_page_allocator()});
  if (auto ok = feed_all(opener, **source); !ok) return propagate(ok);
  auto checkpoint = opener.finish();
  if (!checkpoint) return propagate(checkpoint);
  return CheckpointFile(std::move(*source), std::move(*checkpoint), options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<ByteSpan> CheckpointFile::read_chunk(const TensorRef& tensor, std::uint32_t i,
                                            ChunkBuffer& buffer) const try {
  const ChunkRecord& chunk = checkpoint_.catalog().tables().chunks[tensor.first_chunk() + i];
  const Extent extent{chunk.file, chunk.offset, chunk.stored};
  if (!source_->mapping() && buffer.stored.size() < extent.length) {
    buffer.stored.resize(static_cast<std::size_t>(extent.length));
  }
  auto bytes = source_->read(extent, buffer.stored);
  if (bytes) bytes = buffer.reader.open(tensor, i, *bytes);
  if (!bytes) bytes.error().path = tensor_path(tensor);
  return bytes;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::check_in_place(std::span<const TensorRef> tensors) const {
  struct Place {
    std::uint32_t tensor;  // in `tensors`
    std::uint32_t chunk;   // of that tensor
  };
  std::vector<Place> places;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    for (std::uint32_t i = 0; i < tensors[t].chunk_count(); ++i) places.push_back({t, i});
  }
  return parallel_for(places.size(), options_.threads,
                      [&](unsigned, std::size_t i) -> Result<void> {
                        ChunkBuffer unused;  // The chunks are raw, and mapped.
                        auto bytes = read_chunk(tensors[places[i].tensor], places[i].chunk, unused);
                        if (!bytes) return propagate(bytes);
                        return {};
                      });
}

bool CheckpointFile::is_in_place(const TensorRef& tensor) const {
  return source_->mapping() && tensor.raw_extent();
}

Result<TensorView> CheckpointFile::view(const TensorRef& tensor, Check check) const try {
  const auto extent = tensor.raw_extent();
  const auto mapping = source_->mapping();
  if (!extent || !mapping) return slice(tensor, {});
  if (check == Check::kHashes && checkpoint_.catalog().has_hashes()) {
    if (auto ok = check_in_place(std::span(&tensor, 1)); !ok) return propagate(ok);
  }
  auto bytes = source_->read(*extent, {});
  if (!bytes) return propagate(bytes);
  const auto shape = tensor.shape();
  return TensorView{tensor.dtype(), {shape.begin(), shape.end()}, *bytes, source_};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<TensorView> CheckpointFile::slice(const TensorRef& tensor,
                                         std::span<const Slice> slices) const try {
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  if (plan->bytes() > options_.limits.decoded_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "reading this takes " + counted(plan->bytes(), "byte") +
                    " and Limits::decoded_bytes allows " +
                    std::to_string(options_.limits.decoded_bytes),
                Error::kNoOffset, tensor_path(tensor));
  }
  auto memory = allocate(plan->bytes());
  if (!memory) return no_memory(tensor, plan->bytes());
  const MutableByteSpan out(memory.get(), static_cast<std::size_t>(plan->bytes()));
  if (auto ok = read_planned(*plan, out); !ok) return propagate(ok);
  return TensorView{tensor.dtype(), plan->shape(), out, std::move(memory)};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::read_into(const TensorRef& tensor, std::span<const Slice> slices,
                                       MutableByteSpan out) const try {
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  return read_planned(*plan, out);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::read_planned(const ReadPlan& plan, MutableByteSpan out) const {
  if (out.size() != plan.bytes()) {
    return fail(ErrorCode::kInvalidArgument, "the result has " + counted(plan.bytes(), "byte") +
                                                 " and the buffer " + std::to_string(out.size()));
  }
  const unsigned threads = plan.is_concurrent() ? thread_count(options_.threads) : 1;
  std::vector<ChunkBuffer> buffers(threads);
  return parallel_for(plan.chunks().size(), threads,
                      [&](unsigned worker, std::size_t i) -> Result<void> {
                        const Extent& extent = plan.chunks()[i].stored;
                        const auto length = static_cast<std::size_t>(extent.length);
                        MutableByteSpan target;
                        if (!source_->mapping()) {
                          if (const auto direct = plan.direct_offset(i)) {
                            target = out.subspan(static_cast<std::size_t>(*direct), length);
                          } else {
                            buffers[worker].stored.resize(length);
                            target = buffers[worker].stored;
                          }
                        }
                        auto bytes = source_->read(extent, target);
                        if (!bytes) return propagate(bytes);
                        return plan.deliver(i, *bytes, out, buffers[worker].reader);
                      });
}

Result<Value> CheckpointFile::load(const NodeRef& node, Check check) const try {
  // All tensors that stay where they are get checked at once: one after the other, their threads
  // would start and stop for each.
  if (check == Check::kHashes && checkpoint_.catalog().has_hashes()) {
    std::vector<TensorRef> in_place;
    std::vector<bool> seen(checkpoint_.tensor_count());
    for (Walker walk(node); walk.next();) {
      const auto tensor = walk.node().tensor();
      if (!tensor || seen[tensor->number()] || !is_in_place(*tensor)) continue;
      seen[tensor->number()] = true;
      in_place.push_back(*tensor);
    }
    if (auto ok = check_in_place(in_place); !ok) return propagate(ok);
  }
  return to_value(node, [&](const TensorRef& tensor) -> Result<TensorData> {
    auto loaded = view(tensor, is_in_place(tensor) ? Check::kNothing : check);
    if (!loaded) return propagate(loaded);
    return TensorData::kept(loaded->bytes, loaded->keeper);
  });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Value> CheckpointFile::load_lazily(const NodeRef& node) const try {
  return to_value(node, [this](const TensorRef& tensor) { return data_lazily(tensor); });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<TensorData> CheckpointFile::data_lazily(const TensorRef& tensor) const try {
  auto plan = ReadPlan::make(tensor);
  if (!plan) return propagate(plan);
  return TensorData::produced([file = *this, plan = std::move(*plan)](
                                  std::uint64_t offset, MutableByteSpan out) -> Result<void> {
    return file.read_range(plan, offset, out);
  });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// Part of a whole tensor: a save asks for one chunk at a time, which is then read to where it
// belongs.
Result<void> CheckpointFile::read_range(const ReadPlan& plan, std::uint64_t offset,
                                        MutableByteSpan out) const {
  ChunkBuffer buffer;
  for (auto i = static_cast<std::uint32_t>(offset / kChunkBytes);
       i < plan.chunks().size() && plan.chunks()[i].begin < offset + out.size(); ++i) {
    const PlannedChunk& chunk = plan.chunks()[i];
    auto bytes = read_chunk(plan.tensor(), i, buffer);
    if (!bytes) return propagate(bytes);
    const std::uint64_t begin = std::max(chunk.begin, offset);
    const std::uint64_t end = std::min(chunk.begin + chunk.length, offset + out.size());
    std::copy_n(bytes->data() + (begin - chunk.begin), end - begin, out.data() + (begin - offset));
  }
  return {};
}

Result<VerifyReport> CheckpointFile::verify(const Progress& progress) const try {
  // Regions of a chunk or a little more: what each thread holds of a file that is not mapped.
  const VerifyPlan plan(checkpoint_, kChunkBytes);
  std::mutex mutex;
  std::vector<Damage> damage;
  std::uint64_t done = 0;
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  auto checked = parallel_for(plan.regions().size(), options_.threads,
                              [&](unsigned worker, std::size_t i) -> Result<void> {
                                const Extent& extent = plan.regions()[i].extent;
                                ChunkBuffer& buffer = buffers[worker];
                                if (!source_->mapping())
                                  buffer.stored.resize(static_cast<std::size_t>(extent.length));
                                auto bytes = source_->read(extent, buffer.stored);
                                if (!bytes) return propagate(bytes);
                                const auto found = plan.check_region(i, *bytes, buffer.reader);
                                if (!found) return propagate(found);
                                const std::lock_guard lock(mutex);
                                damage.insert(damage.end(), found->begin(), found->end());
                                done += extent.length;
                                if (progress) progress(done, plan.bytes());
                                return {};
                              });
  if (!checked) return propagate(checked);
  return plan.report(std::move(damage));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
