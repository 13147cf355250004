// Going through tensors of any size in bounded memory.
#ifndef ESPALIER_CLI_PIECES_H_
#define ESPALIER_CLI_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/native/checkpoint_file.h"

namespace espalier::cli {

/// Part of a tensor: whole chunks that hold whole elements.
struct Piece {
  std::uint32_t first_chunk = 0;  // counted from the tensor's first one
  std::uint32_t chunk_count = 0;
};

/// The pieces of a tensor, in order; none for a placeholder. One chunk each, but three where
/// elements have six bits, because these begin in one chunk and end in the next.
std::vector<Piece> pieces_of(const TensorRef& tensor);

/// Bytes of a piece.
std::uint64_t piece_bytes(const TensorRef& tensor, const Piece& piece);

/// Memory of one thread for reading pieces.
struct PieceBuffer {
  CheckpointFile::ChunkBuffer chunk;
  std::vector<std::byte> joined;
};

/// The bytes of a piece, checked against their hashes; valid until `buffer` is used again. Errors
/// as of CheckpointFile::read_chunk().
Result<ByteSpan> read_piece(const CheckpointFile& file, const TensorRef& tensor, const Piece& piece,
                            PieceBuffer& buffer);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_PIECES_H_
