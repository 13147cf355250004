// Reads tensors of any size in bounded memory, group by group.
#ifndef ESPALIER_FILES_OPEN_CHUNK_GROUPS_H_
#define ESPALIER_FILES_OPEN_CHUNK_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/checkpoint_file.h"

namespace espalier {

/// Part of a tensor: whole chunks that hold whole elements.
struct ChunkGroup {
  std::uint32_t first_chunk = 0;  // counted from the tensor's first one
  std::uint32_t chunk_count = 0;
};

/// The groups of a tensor, in order; none for a placeholder. A group is one chunk. With six-bit
/// elements it is three chunks, because an element may begin in one chunk and end in the next.
std::vector<ChunkGroup> chunk_groups_of(const TensorRef& tensor);

/// Bytes of a group.
std::uint64_t group_bytes(const TensorRef& tensor, const ChunkGroup& group);

/// Memory that one thread needs to read groups.
struct ChunkGroupBuffer {
  CheckpointFile::ChunkBuffer chunk;
  std::vector<std::byte> joined;
};

/// Returns the bytes of a group, checked against their hashes; valid until `buffer` is used again.
/// Errors are those of CheckpointFile::read_chunk().
[[nodiscard]] Result<ByteSpan> read_group(const CheckpointFile& file, const TensorRef& tensor,
                                          const ChunkGroup& group, ChunkGroupBuffer& buffer);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_CHUNK_GROUPS_H_
