#include "espalier/write/writer.h"

#include <algorithm>
#include <optional>

#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/validate.h"

namespace espalier {
namespace {

// Tensors from here on are written from their own memory; smaller ones are gathered, because a
// system call for each would cost more than copying them.
constexpr std::uint64_t kBorrowBytes = 64 * 1024;

std::optional<ByteSpan> memory_to_borrow(const Tensor& tensor) {
  auto memory = tensor.data.memory();
  if (memory && memory->size() < kBorrowBytes) memory.reset();
  return memory;
}

// The tensor that chunk number `chunk` belongs to, at or after tensor `tensor`.
std::uint32_t tensor_of(const Tables& t, std::uint32_t tensor, std::uint32_t chunk) {
  while (table_chunks(t, t.tensors[tensor]).empty() ||
         chunk - t.tensors[tensor].first_chunk >= table_chunks(t, t.tensors[tensor]).size()) {
    ++tensor;
  }
  return tensor;
}

}  // namespace

Result<Writer> Writer::plan(const Value& state, const Value& metadata, const Limits& limits) {
  auto layout = lay_out(state, metadata, limits);
  if (!layout) return propagate(layout);
  Writer writer(std::move(*layout));
  writer.divide_into_pieces();
  return writer;
}

void Writer::divide_into_pieces() {
  const Tables t = std::as_const(layout_.index).tables();
  std::uint32_t tensor = 0;
  bool borrowing = false;  // whether the last piece is a tensor's own memory
  for (std::uint32_t i = 0; i < t.chunks.size(); ++i) {
    const ChunkRecord& chunk = t.chunks[i];
    tensor = tensor_of(t, tensor, i);
    const bool borrowed = memory_to_borrow(*layout_.tensors[tensor]).has_value();
    const std::uint64_t end = chunk.offset + chunk.stored;
    if (!pieces_.empty() && end - pieces_.back().extent.offset <= kPieceBytes &&
        borrowed == borrowing && (!borrowed || tensor == piece_tensors_.back())) {
      Piece& piece = pieces_.back();
      piece.extent.length = end - piece.extent.offset;
      ++piece.chunk_count;
    } else {
      pieces_.push_back({{chunk.file, chunk.offset, chunk.stored}, i, 1});
      piece_tensors_.push_back(tensor);
    }
    borrowing = borrowed;
  }
  made_.assign(pieces_.size(), 0);
}

Result<ByteSpan> Writer::make(std::size_t i, MutableByteSpan scratch) {
  const Piece& piece = pieces_[i];
  const auto chunks = layout_.index.chunks();
  const Tables t = std::as_const(layout_.index).tables();
  const auto length = static_cast<std::size_t>(piece.extent.length);
  std::uint32_t tensor = piece_tensors_[i];
  const auto in_tensor = [&](std::uint32_t chunk) {
    return std::uint64_t{chunk - t.tensors[tensor].first_chunk} * kChunkBytes;
  };

  if (const auto memory = memory_to_borrow(*layout_.tensors[tensor])) {
    const ByteSpan bytes =
        memory->subspan(static_cast<std::size_t>(in_tensor(piece.first_chunk)), length);
    for (ChunkRecord& chunk : chunks.subspan(piece.first_chunk, piece.chunk_count)) {
      chunk.hash =
          hash128(bytes.subspan(static_cast<std::size_t>(chunk.offset - piece.extent.offset),
                                static_cast<std::size_t>(chunk.stored)));
    }
    made_[i] = 1;
    return bytes;
  }
  if (scratch.size() < length) {
    return fail(ErrorCode::kInvalidArgument, "the scratch buffer is smaller than kPieceBytes");
  }
  std::size_t filled = 0;
  for (std::uint32_t k = piece.first_chunk; k < piece.first_chunk + piece.chunk_count; ++k) {
    tensor = tensor_of(t, tensor, k);
    ChunkRecord& chunk = chunks[k];
    const auto begin = static_cast<std::size_t>(chunk.offset - piece.extent.offset);
    std::fill(scratch.begin() + static_cast<std::ptrdiff_t>(filled),
              scratch.begin() + static_cast<std::ptrdiff_t>(begin), std::byte{0});
    const auto bytes = scratch.subspan(begin, chunk.stored);
    if (auto ok = layout_.tensors[tensor]->data.read(in_tensor(k), bytes); !ok) {
      if (ok.error().path.empty()) ok.error().path = find_tensor_path(t, tensor);
      return propagate(ok);
    }
    chunk.hash = hash128(bytes);
    filled = begin + chunk.stored;
  }
  made_[i] = 1;
  return ByteSpan(scratch.first(length));
}

Result<Writer::Front> Writer::finish() {
  if (std::find(made_.begin(), made_.end(), 0) != made_.end()) {
    return fail(ErrorCode::kIncomplete, "the file cannot be finished before every piece is made");
  }
  // Nobody asks for bytes again, and digests take memory in turn.
  layout_.tensors = {};
  auto digests = node_digests(std::as_const(layout_.index).tables());
  if (!digests) {
    digests.error().code = ErrorCode::kInvalidTree;
    return propagate(digests);
  }
  const ByteSpan index = layout_.index.bytes();
  return Front{encode_header({.file_length = layout_.file_length,
                              .index_length = index.size(),
                              .index_hash = hash128(index),
                              .tree_digest = digests->front()}),
               index};
}

}  // namespace espalier
