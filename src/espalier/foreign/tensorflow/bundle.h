// What the index of a TensorFlow checkpoint says: which tensors there are, and where they lie.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_BUNDLE_H_
#define ESPALIER_FOREIGN_TENSORFLOW_BUNDLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/tensorflow/element_type.h"

namespace espalier {

/// Bytes in a shard, PREFIX.data-00000-of-00002.
struct BundlePiece {
  std::uint32_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;  // CRC-32C
};

/// A part of a tensor that was cut ("partitioned"): its box, and where it lies.
struct BundleSlice {
  std::vector<std::uint64_t> start = {};
  std::vector<std::uint64_t> length = {};
  BundlePiece piece = {};
};

struct BundleEntry {
  std::string_view name;
  std::uint64_t type_number = 0;
  TensorFlowType type = {};
  std::uint64_t elements = 0;
  std::uint32_t first_axis = 0;
  std::uint32_t rank = 0;
  /// Of a tensor in one piece.
  BundlePiece piece = {};
  /// Of one that was cut.
  std::vector<BundleSlice> slices = {};
  /// Why a tensor that was cut cannot be put together; empty if it can.
  std::string problem = {};
};

/// The contents of an index. Its names are views of the table that it was read from.
struct Bundle {
  std::uint32_t shard_count = 0;
  std::uint64_t producer = 0;
  std::uint64_t min_consumer = 0;
  /// Sorted by name.
  std::vector<BundleEntry> entries;
  std::vector<std::uint64_t> axes;
  /// Fields that this version does not know.
  std::uint64_t unknown_fields = 0;
  /// Slices that belong to no tensor.
  std::uint64_t unused_slices = 0;

  std::span<const std::uint64_t> shape(const BundleEntry& entry) const {
    return std::span(axes).subspan(entry.first_axis, entry.rank);
  }
  /// Null if there is none.
  const BundleEntry* find(std::string_view name) const;
};

class SortedTable;

/// Whether a file that begins like this is the index of a checkpoint, or one of TensorFlow's first
/// version.
bool looks_like_tensorflow(ByteSpan front, std::uint64_t file_size);

/// Reads an index. kUnsupportedVersion for the first version of checkpoints, big-endian ones, and
/// those of a later version; kUnsupportedFeature for resources; kForeignInvalid for entries that
/// are damaged, sizes that do not fit a shape, and data that overlap.
[[nodiscard]] Result<Bundle> read_bundle(const SortedTable& table);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_BUNDLE_H_
