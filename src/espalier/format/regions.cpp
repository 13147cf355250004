#include "espalier/format/regions.h"

namespace espalier {

std::vector<Region> divide_into_regions(const Tables& tables, std::span<const FileEntry> files,
                                        bool is_canonical, std::uint64_t target_bytes) {
  std::vector<Region> regions;
  bool is_open = false;  // whether the last region accepts further chunks
  std::uint64_t end = files.front().data_begin;
  for (std::uint32_t i = 0; i < tables.chunks.size(); ++i) {
    const ChunkRecord& chunk = tables.chunks[i];
    if (files[chunk.file].problem) {
      is_open = false;
      continue;
    }
    const bool follows = is_canonical || (is_open && chunk.file == regions.back().extent.file &&
                                          chunk.offset == end);
    if (!is_open || !follows) {
      const std::uint64_t begin = is_canonical ? end : chunk.offset;
      regions.push_back({{chunk.file, begin, 0}, i, 0});
    }
    Region& region = regions.back();
    end = chunk.offset + chunk.stored;
    region.extent.length = end - region.extent.offset;
    ++region.chunk_count;
    is_open = region.extent.length < target_bytes;
  }
  return regions;
}

}  // namespace espalier
