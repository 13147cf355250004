// Writes an Espalier file, wherever its bytes go to.
//
//   Result<Writer> writer = Writer::plan(state);
//   for (std::size_t i = 0; i < writer->pieces().size(); ++i) {  // on any threads, in any order
//     Result<ByteSpan> bytes = writer->make(i, scratch);
//     write(writer->pieces()[i].extent, *bytes);
//   }
//   Result<Writer::Front> front = writer->finish();
//   write(index at kHeaderBytes, front->index), and at last write(header at 0, front->header);
//
// The layout of the whole file is known from the tree's shapes alone, so tensors may be made when
// they are needed, and memory stays at the index and the pieces in flight.
#ifndef ESPALIER_WRITE_WRITER_H_
#define ESPALIER_WRITE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/base/limits.h"
#include "espalier/format/header.h"
#include "espalier/tree/value.h"
#include "espalier/write/layout.h"

namespace espalier {

/// The machine that writes an Espalier file. It does no I/O and holds no thread. Movable.
class Writer {
 public:
  /// Part of the file: one or more whole chunks, and the padding between them.
  struct Piece {
    Extent extent;
    std::uint32_t first_chunk = 0;
    std::uint32_t chunk_count = 0;
  };

  /// What stands before the tensors.
  struct Front {
    std::array<std::byte, kHeaderBytes> header;
    /// Belongs at byte kHeaderBytes. Valid as long as the writer lives.
    ByteSpan index;
  };

  /// Bytes that a piece has at most, and so what `scratch` needs. Two chunks: a page cache holds
  /// what is written in small calls in small units, which are slower to fill and to map.
  static constexpr std::size_t kPieceBytes = 2 * kChunkBytes;

  /// Lays out the file; errors as of lay_out(). The tree may go afterwards: its tensors are kept.
  static Result<Writer> plan(const Value& state, const Value& metadata = Value::dict(),
                             const Limits& limits = {});

  std::uint64_t file_length() const { return layout_.file_length; }
  /// The pieces of the file after the index, in file order. Bytes that no piece covers are zero.
  std::span<const Piece> pieces() const { return pieces_; }

  /// Makes the bytes of piece `i` and records their hashes: a view of the tensor's own memory if
  /// the piece is just that, and of `scratch` (at least kPieceBytes bytes) otherwise. Thread-safe
  /// for different pieces. Fails as the tensor's producer does, with the tensor's key path.
  Result<ByteSpan> make(std::size_t i, MutableByteSpan scratch);

  /// Header and index, once every piece has been made; kIncomplete before. kInvalidTree if the
  /// elements of a set turn out to be equal. The header is to be written last: without it, no
  /// reader takes an unfinished file for a checkpoint.
  Result<Front> finish();

 private:
  explicit Writer(Layout layout) : layout_(std::move(layout)) {}

  void divide_into_pieces();

  Layout layout_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> piece_tensors_;  // the tensor of each piece's first chunk
  std::vector<std::uint8_t> made_;            // by piece; bytes, because threads set them
};

}  // namespace espalier

#endif  // ESPALIER_WRITE_WRITER_H_
