// Divides the blobs of a file into pieces of a handy size for reading, checking and writing.
#ifndef ESPALIER_FORMAT_REGIONS_H_
#define ESPALIER_FORMAT_REGIONS_H_

#include <cstdint>
#include <vector>

#include "espalier/base/extent.h"
#include "espalier/format/tables.h"

namespace espalier {

/// A run of whole chunks and the padding before each: the regions of a file cover all that follows
/// its index, without gaps. Many small tensors share a region, and a large one has several.
struct Region {
  Extent extent;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunk_count = 0;
};

/// The regions of a canonical layout that begins at `data_begin`; each ends as soon as it has
/// `target_bytes` bytes.
inline std::vector<Region> divide_into_regions(const Tables& tables, std::uint64_t data_begin,
                                               std::uint64_t target_bytes) {
  std::vector<Region> regions;
  std::uint64_t begin = data_begin;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < tables.chunks.size(); ++i) {
    const ChunkRecord& chunk = tables.chunks[i];
    const std::uint64_t end = chunk.offset + chunk.stored;
    if (end - begin < target_bytes && i + 1 < tables.chunks.size()) continue;
    regions.push_back({{chunk.file, begin, end - begin}, first, i + 1 - first});
    begin = end;
    first = i + 1;
  }
  return regions;
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_REGIONS_H_
