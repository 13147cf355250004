// What the header of an array says: its type, its shape, and where its elements are.
#ifndef ESPALIER_FOREIGN_HDF5_DATASET_H_
#define ESPALIER_FOREIGN_HDF5_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/hdf5/datatype.h"
#include "espalier/foreign/hdf5/object_header.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

/// A shape, and how far it may grow: kHdf5Undefined for an axis without bound.
struct Hdf5Space {
  /// No elements and no shape at all.
  bool is_null = false;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> most;
};

struct Hdf5Filter {
  std::uint16_t id = 0;
  std::vector<std::uint32_t> values;
};
inline constexpr std::uint16_t kHdf5Deflate = 1;
inline constexpr std::uint16_t kHdf5Shuffle = 2;
inline constexpr std::uint16_t kHdf5Fletcher32 = 3;

/// How chunks are found. The numbers but the first are those of the files.
enum class Hdf5ChunkIndex : std::uint8_t {
  kTree1 = 0,
  kSingle = 1,
  kImplicit = 2,
  kFixedArray = 3,
  kExtensibleArray = 4,
  kTree2 = 5,
};

/// Elements in chunks: blocks of equal shape.
struct Hdf5Chunking {
  Hdf5ChunkIndex index = Hdf5ChunkIndex::kTree1;
  std::uint64_t address = kHdf5Undefined;
  std::uint8_t version = 3;
  bool are_edges_unfiltered = false;
  bool is_single_filtered = false;
  std::uint64_t single_bytes = 0;
  std::uint32_t single_mask = 0;
  std::vector<std::uint64_t> shape;  // of a chunk
  std::uint64_t bytes = 0;           // of a chunk, before its filters
};

struct Hdf5Dataset {
  enum class Place : std::uint8_t { kCompact, kContiguous, kChunked };

  Hdf5Type type;
  Hdf5Space space;
  Place place = Place::kContiguous;
  /// Of what is not chunked; undefined if no element was ever written.
  std::uint64_t address = kHdf5Undefined;
  Hdf5Chunking chunking;
  /// In the order in which they were applied.
  std::vector<Hdf5Filter> filters;
  /// Of one element; none for zeros.
  std::vector<std::byte> fill;
  /// Bytes of one element, with the axes of its type, and of all.
  std::uint64_t element_bytes = 0;
  std::uint64_t bytes = 0;
};

/// Of an attribute or an array.
Hdf5Space read_hdf5_space(Hdf5Reading& reading, ByteSpan body);

/// The array with these messages. Refuses, by name, what cannot be read.
Hdf5Dataset read_hdf5_dataset(Hdf5Reading& reading, const std::vector<Hdf5Message>& messages);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_DATASET_H_
