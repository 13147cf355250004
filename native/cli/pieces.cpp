#include "pieces.h"

#include <algorithm>

#include "espalier/format/shape.h"

namespace espalier::cli {

std::vector<Piece> pieces_of(const TensorRef& tensor) {
  std::vector<Piece> pieces;
  if (tensor.is_placeholder()) return pieces;
  const auto chunks = static_cast<std::uint32_t>(chunk_count(tensor.bytes()));
  const std::uint32_t step = dtype_bits(tensor.dtype()) == 6 ? 3 : 1;
  for (std::uint32_t first = 0; first < chunks; first += std::min(step, chunks - first)) {
    pieces.push_back({first, std::min(step, chunks - first)});
  }
  return pieces;
}

std::uint64_t piece_bytes(const TensorRef& tensor, const Piece& piece) {
  const std::uint64_t total = tensor.bytes();
  const std::uint32_t last = piece.first_chunk + piece.chunk_count - 1;
  return (piece.chunk_count - 1) * kChunkBytes + chunk_length(total, last);
}

Result<ByteSpan> read_piece(const CheckpointFile& file, const TensorRef& tensor, const Piece& piece,
                            PieceBuffer& buffer) {
  if (piece.chunk_count == 1) return file.read_chunk(tensor, piece.first_chunk, buffer.chunk);
  buffer.joined.clear();
  for (std::uint32_t i = 0; i < piece.chunk_count; ++i) {
    auto bytes = file.read_chunk(tensor, piece.first_chunk + i, buffer.chunk);
    if (!bytes) return bytes;
    buffer.joined.insert(buffer.joined.end(), bytes->begin(), bytes->end());
  }
  return ByteSpan(buffer.joined);
}

}  // namespace espalier::cli
