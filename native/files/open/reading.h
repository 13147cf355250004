// What the sources of CheckpointFile share: how chunks come from a file into memory.
//
//   checkpoint_file.cpp   opening, and finding tensors
//   read_chunks.cpp       the bytes of chunks: stored, decoded, and of strided tensors
//   convert_tensors.cpp   tensors that are read into memory of another type
//   read_tensors.cpp      views, slices, and reads into memory of the caller
//   load_tree.cpp         whole trees, at once or when their tensors are asked for
//   verify_file.cpp       every byte
#ifndef ESPALIER_FILES_OPEN_READING_H_
#define ESPALIER_FILES_OPEN_READING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/format/stored_tensor.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/read/plan.h"
#include "files/os/pool.h"

namespace espalier {

struct CheckpointFile::ChunkBuffer::State {
  std::vector<std::byte> stored;
  // For a patch: the stored bytes of its bases, and views of them and of its own.
  std::vector<std::vector<std::byte>> bases;
  std::vector<ByteSpan> layers;
  ChunkReader reader;
  // The part of a strided tensor that was read last.
  std::optional<TensorRef> band_of;
  std::uint64_t band_begin = 0;
  std::vector<std::byte> band;
};

struct CheckpointFile::Shared {
  std::string path;
  Pool<ChunkBuffer> buffers;
};

/// A tensor or slice to read, and memory for the result.
struct CheckpointFile::Reading {
  ReadPlan plan;
  MutableByteSpan out;
};

/// A tensor to read and convert, and memory for the result.
struct CheckpointFile::Conversion {
  TensorRef tensor;
  DType dtype;
  MutableByteSpan out;
};

/// The progress of one call, and whether to give it up. Every chunk passes it.
class CheckpointFile::Read {
 public:
  explicit Read(const ReadOptions& options) : options_(options) {}

  // Adds to the total. Before the first chunk, so that the total does not change.
  void expect(std::uint64_t bytes) { total_ += bytes; }
  void expect(std::span<const Reading> readings) {
    for (const Reading& reading : readings) {
      for (const PlannedChunk& chunk : reading.plan.chunks()) expect(chunk.stored_bytes());
    }
  }
  void expect(std::span<const Conversion> conversions) {
    for (const Conversion& each : conversions) expect(each.tensor.bytes());
  }

  // Thread-safe.
  template <class ReadChunk>
  Result<void> chunk(std::uint64_t bytes, const ReadChunk& read_chunk) {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kCancelled, "the read was cancelled");
    }
    Result<void> read = read_chunk();
    if (!read || !options_.progress) return read;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
    return {};
  }

 private:
  const ReadOptions& options_;
  std::uint64_t total_ = 0;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

/// The stored bytes of a chunk, or a region, and of its bases, in the mapping or in `buffer`.
template <class ReadStored>
Result<StoredLayers> CheckpointFile::read_layers(const Extent& extent,
                                                 std::span<const ChunkRecord> bases,
                                                 ChunkBuffer& buffer, ReadStored read) const {
  buffer.state_->layers.clear();
  auto bytes = (this->*read)(extent, buffer.state_->stored);
  if (!bytes) return propagate(bytes);
  buffer.state_->layers.push_back(*bytes);
  if (buffer.state_->bases.size() < bases.size()) buffer.state_->bases.resize(bases.size());
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const ChunkRecord& base = bases[i];
    bytes = (this->*read)({base.file, base.offset, base.stored}, buffer.state_->bases[i]);
    if (!bytes) return propagate(bytes);
    buffer.state_->layers.push_back(*bytes);
  }
  return StoredLayers(buffer.state_->layers);
}

/// The plan of a read; its errors name the tensor.
[[nodiscard]] Result<ReadPlan> plan_read(const TensorRef& tensor, std::span<const Slice> slices);

/// That a call that does not convert is not asked to: the bits of a f16 would be read as a float.
[[nodiscard]] Result<void> check_no_conversion(const ReadOptions& options);

/// `bytes` bytes for a tensor or a slice of it, from the caller's `memory` if there is one.
/// kOutOfMemory; kInvalidArgument if they stand where they were not asked for.
[[nodiscard]] Result<std::shared_ptr<std::byte>> memory_for(const TensorRef& tensor,
                                                            std::uint64_t bytes,
                                                            const TensorMemory& memory);

/// That all bools are valid objects in C++. A hostile file may have other bytes.
[[nodiscard]] Result<void> check_bools(DType dtype, ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_READING_H_
