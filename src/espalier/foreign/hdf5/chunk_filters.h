// Undoes the filters of a chunk.
#ifndef ESPALIER_FOREIGN_HDF5_CHUNK_FILTERS_H_
#define ESPALIER_FOREIGN_HDF5_CHUNK_FILTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/hdf5/dataset.h"

namespace espalier {

/// Reuses its memory from chunk to chunk. Not thread-safe.
class Hdf5ChunkFilters {
 public:
  /// The bytes of a chunk that was `stored` at `offset`, after all of `filters` but those in
  /// `mask`, and had `bytes` bytes before; never more. Valid until the next call. kForeignInvalid
  /// if it has another size, cannot be inflated, or does not match its checksum.
  [[nodiscard]] Result<ByteSpan> undo(std::span<const Hdf5Filter> filters, std::uint32_t mask,
                                      ByteSpan stored, std::uint64_t bytes, std::uint64_t offset);

 private:
  std::vector<std::byte> now_;
  std::vector<std::byte> next_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_CHUNK_FILTERS_H_
