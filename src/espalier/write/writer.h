// Makes the bytes of an Espalier file; the caller writes them.
//
//   Result<Writer> writer = Writer::plan(state);
//   for (std::size_t i = 0; i < writer->pieces().size(); ++i) {
//     Result<ByteSpan> bytes = writer->make(i, scratch);  // on any threads, in any order
//     write(writer->place(i), *bytes);                    // of compressed files, in this order
//   }
//   Result<Writer::Front> front = writer->finish();
//   write(index at kHeaderBytes, front->index), and at last write(header at 0, front->header);
//
// The layout of an uncompressed file follows from the tree's shapes. In a compressed file, only the
// chunks' offsets are unknown. So tensors can be made on demand, and memory holds only the index
// and the pieces in flight.
#ifndef ESPALIER_WRITE_WRITER_H_
#define ESPALIER_WRITE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/compression_level.h"
#include "espalier/error.h"
#include "espalier/format/header.h"
#include "espalier/limits.h"
#include "espalier/value.h"
#include "espalier/write/carry.h"
#include "espalier/write/layout.h"
#include "espalier/write/references.h"

namespace espalier {

struct WriteOptions {
  /// 0 stores tensors raw; 1 (fast) to 9 (thorough) compress each chunk that gets smaller.
  /// docs/compression.md describes the levels.
  int compression_level = kNoCompression;
  /// Which chunks of tensors that another checkpoint has are taken over from it.
  Carry carry = Carry::kNothing;
  /// Limits that the file's readers are assumed to have.
  Limits limits = {};
  /// Chunks that are not written, because they lie in other files. Must live until plan() returns.
  const References* references = nullptr;
};

/// The machine that writes an Espalier file. It does no I/O and holds no thread. Movable.
class Writer {
 public:
  /// A part of the file: one or more whole chunks, and the padding between them.
  struct Piece {
    std::uint32_t first_chunk = 0;
    std::uint32_t chunk_count = 0;
    /// The tensor of the first chunk.
    std::uint32_t tensor = 0;
    /// Length of the piece in bytes if nothing is compressed.
    std::uint64_t length = 0;
    /// Whether it has bytes of a streamed tensor.
    bool is_streamed = false;
  };

  /// Memory and codecs for making pieces; allocated at the first piece. One per thread.
  class Scratch {
   private:
    friend class Writer;
    std::vector<std::byte> piece_;
    std::vector<std::byte> chunk_;
    std::optional<ChunkEncoder> encoder_;
    /// The streamed piece whose bytes were read.
    std::optional<std::size_t> read_;
  };

  /// A piece as it stands in the checkpoint that it is taken over from.
  struct StoredPiece {
    /// Valid until finish().
    const ByteSource* source = nullptr;
    Extent extent;
  };

  /// The bytes before the tensors.
  struct Front {
    std::array<std::byte, kHeaderBytes> header;
    /// Write it at byte kHeaderBytes. Valid as long as the writer lives.
    ByteSpan index;
  };

  /// Largest piece in bytes: two chunks. The page cache keeps data from small writes in small
  /// units, which are slower to fill and to map.
  static constexpr std::size_t kPieceBytes = 2 * kChunkBytes;

  /// Lays out the file. Errors are those of lay_out(), and kInvalidArgument for an unknown level.
  /// The tree may be destroyed afterwards; the writer keeps its tensors.
  [[nodiscard]] static Result<Writer> plan(const Value& state,
                                           const Value& metadata = Value::dict(),
                                           const WriteOptions& options = {});

  bool is_compressed() const { return options_.compression_level != kNoCompression; }
  /// Length of the file in bytes. For a compressed file, the uncompressed length until the last
  /// piece is placed.
  std::uint64_t file_length() const { return layout_.file_length; }
  /// The pieces of the file after the index, in file order. Bytes that no piece covers are zero.
  std::span<const Piece> pieces() const { return pieces_; }

  /// The most memory in bytes that one Scratch takes for these pieces.
  std::uint64_t scratch_bytes() const;

  /// Reads the streamed tensors of piece `i` into `scratch`. Several threads call it for each piece
  /// that is_streamed, in order, one at a time, and then make() with the same scratch. One thread
  /// that makes the pieces in order need not call it. Errors are those of make().
  [[nodiscard]] Result<void> read(std::size_t i, Scratch& scratch);

  /// Whether all of piece `i` stands in another checkpoint and is taken over. Then its bytes and
  /// hashes are those there: copy them, or call make(). Thread-safe for different pieces.
  std::optional<StoredPiece> carry(std::size_t i);

  /// Makes the bytes of piece `i` and records their hashes and codecs. The result is a view of the
  /// tensor's own memory if possible, otherwise of `scratch`, valid until that is used again.
  /// Thread-safe for different pieces and scratches. Errors: those of the tensor's producer, or of
  /// the files that chunks are taken over from, with the tensor's key path; kOutOfMemory.
  [[nodiscard]] Result<ByteSpan> make(std::size_t i, Scratch& scratch);

  /// The file offset of piece `i`, which must have been made or carried. In a compressed file, a
  /// piece's offset depends on the pieces before it: call place() in order, from one thread at a
  /// time. Otherwise thread-safe.
  Extent place(std::size_t i);

  /// Bytes that make() asks for.
  struct Need {
    const Tensor* tensor = nullptr;
    /// Whether `extent` lies in the files of the checkpoint that the tensor is taken over from, and
    /// not in the tensor's own bytes, as file 0.
    bool is_stored = false;
    Extent extent = {};
  };

  /// What make(i) reads of its tensors and of other checkpoints, in that order, for hosts that have
  /// to bring it first. A range may be read in several parts.
  std::vector<Need> needs(std::size_t i) const;

  /// Header and index, once every piece has been made and placed; kIncomplete before. kInvalidTree
  /// if a set has equal elements. kFileChanged if tensors were taken over from a file that was
  /// written to since. Write the header last: without it, no reader takes an unfinished
  /// file for a checkpoint.
  [[nodiscard]] Result<Front> finish();

 private:
  Writer(Layout layout, const WriteOptions& options)
      : layout_(std::move(layout)), options_(options) {}

  void divide_into_pieces();
  bool begins_aligned(const Piece& piece) const;
  bool is_patches(const Piece& piece) const;
  bool fits(const Piece& piece, std::uint32_t tensor, const ChunkRecord& chunk) const;
  std::optional<ByteSpan> memory_to_borrow(std::uint32_t tensor) const;
  std::optional<ByteSpan> borrowed(const Piece& piece) const;
  const ChunkRecord* carried(std::uint32_t tensor, std::uint32_t chunk) const;
  bool stands_alone(std::uint32_t tensor) const;
  [[nodiscard]] Result<void> check_carried() const;
  tl::unexpected<Error> carry_failed(std::uint32_t tensor, Error error) const;
  [[nodiscard]] Result<ByteSpan> read_carried(std::uint32_t tensor, const ChunkRecord& from,
                                              MutableByteSpan room) const;
  [[nodiscard]] Result<ByteSpan> make_carried(const Piece& piece, const StoredPiece& stored,
                                              Scratch& scratch) const;
  ByteSpan make_patches(const Piece& piece, Scratch& scratch);
  [[nodiscard]] Result<ByteSpan> make_plain(const Piece& piece, Scratch& scratch);
  [[nodiscard]] Result<ByteSpan> make_compressed(const Piece& piece, Scratch& scratch);
  MutableByteSpan room_for(const Piece& piece, Scratch& scratch) const;
  [[nodiscard]] Result<ByteSpan> logical_bytes(std::uint32_t tensor, std::uint32_t chunk,
                                               MutableByteSpan room, bool is_read);

  Layout layout_;
  WriteOptions options_;
  std::vector<Piece> pieces_;
  // By tensor: its chunks where they are taken over from; empty if they are not.
  std::vector<std::span<const ChunkRecord>> carried_;
  std::vector<std::uint8_t> made_;  // by piece; bytes, because threads set them
  // For a compressed file: the number of placed pieces, and the end of the last one.
  std::size_t placed_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_WRITE_WRITER_H_
