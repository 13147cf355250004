#include "espalier/format/regions.h"

#include <algorithm>
#include <tuple>

#include "espalier/base/merge_sort.h"
#include "espalier/codec/codec.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"

namespace espalier {
namespace {

// The chunks of a canonical layout in the order of files and offsets, if some lie in other files.
// Those of file 0 stand in that order already. Without raw chunks that say the same of the same
// bytes: a small file could have them checked a million times.
std::vector<std::uint32_t> order_of(const Tables& tables) {
  const auto chunks = tables.chunks;
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> referred;
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    (chunks[i].file == 0 ? order : referred).push_back(i);
  }
  if (referred.empty()) return {};
  const auto place = [&](std::uint32_t i) {
    return std::tie(chunks[i].file, chunks[i].offset, chunks[i].stored, chunks[i].codec,
                    chunks[i].hash.low, chunks[i].hash.high);
  };
  sort_numbers(referred, [&](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });
  for (const std::uint32_t i : referred) {
    const bool is_known = chunks[i].codec == static_cast<std::uint8_t>(Codec::kRaw) &&
                          !order.empty() && place(order.back()) == place(i);
    if (!is_known) order.push_back(i);
  }
  return order;
}

}  // namespace

Regions divide_into_regions(const Catalog& catalog, std::uint64_t target_bytes, FileScope scope) {
  const Tables& tables = catalog.tables();
  const auto files = catalog.files();
  const bool is_canonical = catalog.format() == kEspalierFormat;
  const auto is_missing = [&](const ChunkRecord& record) {
    return files[record.file].problem || (scope == FileScope::kOwn && record.file != 0);
  };
  Regions regions;
  if (is_canonical && files.size() > 1) regions.order = order_of(tables);
  const auto count = regions.order.empty() ? tables.chunks.size() : regions.order.size();
  bool is_open = false;  // whether the last region accepts further chunks
  std::uint64_t end = files.front().data_begin;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ChunkRecord& chunk = tables.chunks[regions.chunk(i)];
    const auto bases = catalog.bases(regions.chunk(i));
    if (is_missing(chunk) || std::any_of(bases.begin(), bases.end(), is_missing)) {
      is_open = false;
      if (chunk.file == 0) end = chunk.offset + chunk.stored;
      continue;
    }
    const bool has_padding = is_canonical && chunk.file == 0;
    const bool follows = is_open && !chunk.is_patch() &&
                         chunk.file == regions.list.back().extent.file &&
                         (has_padding || chunk.offset == end);
    if (!follows) {
      const std::uint64_t begin = has_padding ? end : chunk.offset;
      regions.list.push_back({{chunk.file, begin, 0}, i, 0});
    }
    Region& region = regions.list.back();
    end = chunk.offset + chunk.stored;
    region.extent.length = end - region.extent.offset;
    ++region.chunk_count;
    is_open = region.extent.length < target_bytes && !chunk.is_patch();
  }
  return regions;
}

}  // namespace espalier
