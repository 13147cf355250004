// Finds the chunks of an array.
#ifndef ESPALIER_FOREIGN_HDF5_CHUNK_INDEX_H_
#define ESPALIER_FOREIGN_HDF5_CHUNK_INDEX_H_

#include <cstdint>
#include <vector>

#include "espalier/foreign/hdf5/dataset.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

struct Hdf5Chunk {
  std::uint64_t address = 0;
  /// In the file, after the filters.
  std::uint64_t bytes = 0;
  /// Its place in the grid of the present shape, counted by rows.
  std::uint64_t number = 0;
  /// Filters that were left out, by their bits.
  std::uint32_t mask = 0;
};

/// The chunks of a chunked array that were ever written and that its present shape reaches, in the
/// order of their addresses. kForeignInvalid if two overlap or have the same place in the array.
std::vector<Hdf5Chunk> read_chunk_index(Hdf5Reading& reading, const Hdf5Dataset& dataset);

/// Chunks along each axis.
std::vector<std::uint64_t> chunk_grid(const Hdf5Dataset& dataset);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_CHUNK_INDEX_H_
