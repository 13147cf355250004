// Writes an Espalier file, wherever its bytes go to.
//
//   Result<Writer> writer = Writer::plan(state);
//   for (std::size_t i = 0; i < writer->pieces().size(); ++i) {
//     Result<ByteSpan> bytes = writer->make(i, scratch);  // on any threads, in any order
//     write(writer->place(i), *bytes);                    // of compressed files, in this order
//   }
//   Result<Writer::Front> front = writer->finish();
//   write(index at kHeaderBytes, front->index), and at last write(header at 0, front->header);
//
// The layout of an uncompressed file is known from the tree's shapes alone; of a compressed one,
// all but the chunks' places is. So tensors may be made when they are needed, and memory stays at
// the index and the pieces in flight.
#ifndef ESPALIER_WRITE_WRITER_H_
#define ESPALIER_WRITE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/base/limits.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/format/header.h"
#include "espalier/tree/value.h"
#include "espalier/write/layout.h"

namespace espalier {

struct WriteOptions {
  /// 0 stores tensors as they are; 1 (fast) to 9 (thorough) compresses each chunk that it makes
  /// smaller. docs/compression.md says what they do and gain.
  int compression_level = kNoCompression;
  /// What readers must be assumed to accept.
  Limits limits = {};
};

/// The machine that writes an Espalier file. It does no I/O and holds no thread. Movable.
class Writer {
 public:
  /// Part of the file: one or more whole chunks, and the padding between them.
  struct Piece {
    std::uint32_t first_chunk = 0;
    std::uint32_t chunk_count = 0;
    /// The tensor of the first chunk.
    std::uint32_t tensor = 0;
    /// Bytes of the piece as long as nothing is compressed.
    std::uint64_t length = 0;
  };

  /// What making pieces takes: memory, from the first piece on, and codecs. One per thread.
  class Scratch {
   private:
    friend class Writer;
    std::vector<std::byte> piece_;
    std::vector<std::byte> chunk_;
    std::optional<ChunkEncoder> encoder_;
  };

  /// What stands before the tensors.
  struct Front {
    std::array<std::byte, kHeaderBytes> header;
    /// Belongs at byte kHeaderBytes. Valid as long as the writer lives.
    ByteSpan index;
  };

  /// Bytes that a piece has at most. Two chunks: a page cache holds what is written in small calls
  /// in small units, which are slower to fill and to map.
  static constexpr std::size_t kPieceBytes = 2 * kChunkBytes;

  /// Lays out the file; errors as of lay_out(), and kInvalidArgument for a level that there is not.
  /// The tree may go afterwards: its tensors are kept.
  static Result<Writer> plan(const Value& state, const Value& metadata = Value::dict(),
                             const WriteOptions& options = {});

  bool is_compressed() const { return options_.compression_level != kNoCompression; }
  /// Bytes of the file; of a compressed one, what it would have uncompressed until the last piece
  /// has its place.
  std::uint64_t file_length() const { return layout_.file_length; }
  /// The pieces of the file after the index, in file order. Bytes that no piece covers are zero.
  std::span<const Piece> pieces() const { return pieces_; }

  /// Makes the bytes of piece `i` and records their hashes and codecs: a view of the tensor's own
  /// memory if the piece is just that, and of `scratch` otherwise, until that is used again.
  /// Thread-safe for different pieces and scratches. Fails as the tensor's producer does, with the
  /// tensor's key path; kOutOfMemory.
  Result<ByteSpan> make(std::size_t i, Scratch& scratch);

  /// Where piece `i`, which has been made, belongs in the file. Of a compressed file, a piece's
  /// place depends on those before it: the pieces must be placed in order, and by one thread at a
  /// time. Otherwise thread-safe.
  Extent place(std::size_t i);

  /// Header and index, once every piece has been made and placed; kIncomplete before. kInvalidTree
  /// if the elements of a set turn out to be equal. The header is to be written last: without it,
  /// no reader takes an unfinished file for a checkpoint.
  Result<Front> finish();

 private:
  Writer(Layout layout, const WriteOptions& options)
      : layout_(std::move(layout)), options_(options) {}

  void divide_into_pieces();
  bool fits(const Piece& piece, std::uint32_t tensor, const ChunkRecord& chunk) const;
  std::optional<ByteSpan> memory_to_borrow(std::uint32_t tensor) const;
  Result<ByteSpan> make_plain(const Piece& piece, Scratch& scratch);
  Result<ByteSpan> make_compressed(const Piece& piece, Scratch& scratch);
  Result<ByteSpan> logical_bytes(std::uint32_t tensor, std::uint32_t chunk, MutableByteSpan room);

  Layout layout_;
  WriteOptions options_;
  std::vector<Piece> pieces_;
  std::vector<std::uint8_t> made_;  // by piece; bytes, because threads set them
  // Of a compressed file: how many pieces have their place, and where the last of them ends.
  std::size_t placed_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_WRITE_WRITER_H_
