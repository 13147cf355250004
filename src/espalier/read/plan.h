// The plan of a read of a tensor or a slice: which chunks it needs, and where their bytes go.
//
// A ReadPlan is the one read path: everything that turns file bytes into tensor bytes, in any
// order and on however many threads, ends in ReadPlan::deliver().
#ifndef ESPALIER_READ_PLAN_H_
#define ESPALIER_READ_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/error.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/read/strided_copy.h"

namespace espalier {

/// One chunk that a read needs.
struct PlannedChunk {
  /// Its number in the checkpoint.
  std::uint32_t chunk = 0;
  /// Where its stored bytes lie.
  Extent stored;
  /// The tensor's bytes that it holds: `length` from byte `begin` on.
  std::uint64_t begin = 0;
  std::uint32_t length = 0;
  /// What it is applied to, if it is a patch: see TensorRef::bases().
  std::span<const ChunkRecord> bases = {};

  /// Stored bytes of the chunk and its bases.
  std::uint64_t stored_bytes() const {
    std::uint64_t bytes = stored.length;
    for (const ChunkRecord& base : bases) bytes += base.stored;
    return bytes;
  }
};

/// How to read a tensor, or a slice of one, into contiguous memory. Immutable; const use is
/// thread-safe. Valid as long as some copy of the tensor's Checkpoint lives.
class ReadPlan {
 public:
  /// Plans to read `tensor`. `slices` holds one Slice for each of the first axes; axes without one
  /// are read whole. kWrongKind for a placeholder; as of
  /// check_readable(); kInvalidSlice if there are more slices than
  /// axes, a step is not positive, or a slice would cut an opaque block.
  [[nodiscard]] static Result<ReadPlan> make(TensorRef tensor, std::span<const Slice> slices = {});

  const TensorRef& tensor() const { return tensor_; }
  /// Elements along each axis of the result.
  const std::vector<std::uint64_t>& shape() const { return shape_; }
  /// Bytes of the result, packed in C order. Elements narrower than a byte are packed anew; the
  /// rest of the last byte is zero.
  std::uint64_t bytes() const { return bytes_; }
  /// The chunks that the result needs, and no others, in file order.
  std::span<const PlannedChunk> chunks() const { return chunks_; }
  /// Whether different chunks touch different bytes of the result, so that they may be delivered at
  /// the same time. False only for slices of elements narrower than a byte.
  bool is_concurrent() const { return copy_.is_bytewise(); }
  /// How the tensor's bytes in the chunks become the result.
  const StridedCopy& copy() const { return copy_; }
  /// If chunk `i` lands in the result as it is stored, in one piece, the offset where: a driver may
  /// then read the file straight to that place and hand the same bytes to deliver().
  std::optional<std::uint64_t> direct_offset(std::size_t i) const;

  /// Takes the stored bytes of chunk `i`, and of its bases: decodes them with `reader`, checks
  /// their hash (if the format has hashes) and puts what the result needs into `out`, which must
  /// have bytes() bytes. Errors are those of ChunkReader::open(), and name the tensor; the chunk's
  /// part of `out` holds anything then. Thread-safe for different chunks and readers if
  /// is_concurrent().
  [[nodiscard]] Result<void> deliver(std::size_t i, StoredLayers stored, MutableByteSpan out,
                                     ChunkReader& reader) const;

  /// The same for results that are put together elsewhere: gives the part that chunk `i` holds, by
  /// itself. It is a view of `stored`, of memory of `reader` or of `scratch`, valid until one of
  /// them is used again. If not is_concurrent(), bits of the first and last byte that belong to
  /// other chunks are 0 in it. Thread-safe for different readers and scratches.
  [[nodiscard]] Result<ResultPart> open_part(std::size_t i, StoredLayers stored,
                                             ChunkReader& reader,
                                             std::vector<std::byte>& scratch) const;

  /// Where the part of chunk `i` begins in the result and how many bytes it has.
  Extent part_extent(std::size_t i) const;

 private:
  explicit ReadPlan(TensorRef tensor) : tensor_(tensor) {}
  void find_chunks();

  TensorRef tensor_;
  std::vector<std::uint64_t> shape_;
  std::uint64_t bytes_ = 0;
  StridedCopy copy_;
  std::vector<PlannedChunk> chunks_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_PLAN_H_
