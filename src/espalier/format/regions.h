// Divides the blobs of a checkpoint into pieces of a handy size for reading and checking.
#ifndef ESPALIER_FORMAT_REGIONS_H_
#define ESPALIER_FORMAT_REGIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"

namespace espalier {

/// A run of whole chunks that lie one after the other in one file, with the padding before each.
/// Many small tensors share a region, and a large one has several. A patch is alone in its region,
/// because its bases are read with it.
struct Region {
  Extent extent;
  /// The chunks: `chunk_count` from place `first` on in Regions::chunk().
  std::uint32_t first = 0;
  std::uint32_t chunk_count = 0;
};

/// All regions, sorted by file and offset. Those of other files than 0 may overlap in a canonical
/// layout: several tensors may refer to the same bytes.
struct Regions {
  std::vector<Region> list;
  /// The chunks in the order of their regions; empty if that is the order of their numbers.
  std::vector<std::uint32_t> order;

  std::uint32_t chunk(std::uint32_t place) const { return order.empty() ? place : order[place]; }
};

/// The regions of all files of `scope` that can be read, without patches that have a base in
/// another; each ends as soon as it has `target_bytes` bytes. In an Espalier file, those of file 0
/// cover all that follows its index. Elsewhere, bytes between chunks mean nothing to us, and no
/// region has them.
Regions divide_into_regions(const Catalog& catalog, std::uint64_t target_bytes,
                            FileScope scope = FileScope::kAll);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_REGIONS_H_
