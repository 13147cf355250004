// What an array of zarr says of itself, in version 2 (.zarray) and 3 (zarr.json).
#ifndef ESPALIER_FOREIGN_ZARR_ARRAY_H_
#define ESPALIER_FOREIGN_ZARR_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// How the bytes of a chunk are compressed.
enum class ZarrPacking : std::uint8_t { kNone, kZstd, kGzip, kZlib };

/// How an array, or the chunks of a shard, are cut and coded.
struct ZarrGrid {
  /// The shape of each chunk. Those at the edges of the array are full, and cut when they are read.
  std::vector<std::uint64_t> chunk = {};
  /// The axis of the array that each axis of the chunk's bytes is; the last one is the fastest.
  std::vector<std::uint32_t> order = {};
  // Of a chunk with elements:
  ZarrPacking packing = ZarrPacking::kNone;
  /// A CRC-32C follows the elements before they are packed, and after.
  bool has_inner_crc = false;
  bool has_outer_crc = false;
  // Of a shard: its chunks, which an index at its end or beginning finds.
  std::shared_ptr<const ZarrGrid> inner = nullptr;
  bool is_index_first = false;
  bool has_index_crc = false;
};

struct ZarrArray {
  DType dtype = DType::kF32;
  /// Of kOpaque. The name views a constant.
  BlockType block = {};
  /// Bytes of an element.
  std::uint32_t width = 0;
  bool is_swapped = false;
  /// zarr's name, if our dtype is not the same: "int4", whose elements have a byte each.
  std::string_view wider_than = {};
  std::vector<std::uint64_t> shape = {};
  ZarrGrid grid = {};
  /// An element, as chunks have it, for chunks that are not there.
  std::vector<std::byte> fill = {};
  /// Between the numbers in the names of chunks.
  char separator = '.';
  /// Whether they begin with "c".
  bool has_c = false;

  /// Elements and bytes, which fit.
  std::uint64_t elements() const;
  std::uint64_t bytes() const { return elements() * width; }
  /// How many chunks there are along each axis.
  std::vector<std::uint64_t> counts() const;
  /// The name of the chunk with this number, in C order.
  std::string chunk_name(std::uint64_t number) const;
  /// The number of the chunk with that name, if it is one.
  std::optional<std::uint64_t> chunk_number(std::string_view name) const;
};

/// The parts of a chunk's shape in C order, as in `counts`.
std::vector<std::uint64_t> grid_position(const std::vector<std::uint64_t>& counts,
                                         std::uint64_t number);

/// Bytes of a chunk with elements, packed no more, or nothing if they are more than 2^63.
std::optional<std::uint64_t> chunk_bytes(const ZarrGrid& grid, std::uint32_t width);

/// Reads .zarray or zarr.json. kForeignInvalid for what zarr does not have, kUnsupportedCodec and
/// kUnsupportedFeature for what it has and this does not read, kLimitExceeded for shapes beyond
/// `limits` and for more chunks than Limits::nodes.
[[nodiscard]] Result<ZarrArray> parse_zarr2(std::string_view text, const Limits& limits);
[[nodiscard]] Result<ZarrArray> parse_zarr3(std::string_view text, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZARR_ARRAY_H_
