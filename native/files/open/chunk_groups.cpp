#include "files/open/chunk_groups.h"

#include <algorithm>

#include "espalier/dtype.h"

namespace espalier {

std::vector<ChunkGroup> chunk_groups_of(const TensorRef& tensor) {
  std::vector<ChunkGroup> groups;
  if (tensor.is_placeholder()) return groups;
  const auto chunks = static_cast<std::uint32_t>(chunk_count(tensor.bytes()));
  const std::uint32_t step = dtype_bits(tensor.dtype()) == 6 ? 3 : 1;
  for (std::uint32_t first = 0; first < chunks; first += std::min(step, chunks - first)) {
    groups.push_back({first, std::min(step, chunks - first)});
  }
  return groups;
}

std::uint64_t group_bytes(const TensorRef& tensor, const ChunkGroup& group) {
  const std::uint64_t total = tensor.bytes();
  const std::uint32_t last = group.first_chunk + group.chunk_count - 1;
  return (group.chunk_count - 1) * kChunkBytes + chunk_length(total, last);
}

Result<ByteSpan> read_group(const CheckpointFile& file, const TensorRef& tensor,
                            const ChunkGroup& group, ChunkGroupBuffer& buffer) {
  if (group.chunk_count == 1) return file.read_chunk(tensor, group.first_chunk, buffer.chunk);
  buffer.joined.clear();
  for (std::uint32_t i = 0; i < group.chunk_count; ++i) {
    auto bytes = file.read_chunk(tensor, group.first_chunk + i, buffer.chunk);
    if (!bytes) return bytes;
    buffer.joined.insert(buffer.joined.end(), bytes->begin(), bytes->end());
  }
  return ByteSpan(buffer.joined);
}

}  // namespace espalier
