// Divides the blobs of a checkpoint into pieces of a handy size for reading and checking.
#ifndef ESPALIER_FORMAT_REGIONS_H_
#define ESPALIER_FORMAT_REGIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/base/extent.h"
#include "espalier/format/file_set.h"
#include "espalier/format/tables.h"

namespace espalier {

/// A run of whole chunks that lie one after the other in one file, with the padding before each.
/// Many small tensors share a region, and a large one has several.
struct Region {
  Extent extent;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunk_count = 0;
};

/// The regions of all files that can be read; each ends as soon as it has `target_bytes` bytes. In
/// a canonical layout, those of file 0 cover all that follows its index. Elsewhere, bytes between
/// chunks mean nothing to us, and no region has them.
std::vector<Region> divide_into_regions(const Tables& tables, std::span<const FileEntry> files,
                                        bool is_canonical, std::uint64_t target_bytes);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_REGIONS_H_
