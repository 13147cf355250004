#include "espalier/write/writer.h"

#include <algorithm>
#include <utility>

#include "espalier/base/release.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/file_set.h"
#include "espalier/format/find_path.h"
#include "espalier/format/stored_tensor.h"

namespace espalier {
namespace {

// Tensors of at least this size are written from their own memory, or copied from file to file.
// Smaller ones are gathered, because a system call for each costs more than copying them.
constexpr std::uint64_t kBorrowBytes = 64 * 1024;

// Stores a chunk as another file has it.
void take_over(ChunkRecord& chunk, const ChunkRecord& from) {
  chunk.hash = from.hash;
  chunk.stored = from.stored;
  chunk.codec = from.codec;
}

std::uint64_t align(std::uint64_t offset) {
  return (offset + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

Result<Writer> Writer::plan(const Value& state, const Value& metadata,
                            const WriteOptions& options) {
  if (auto ok = check_compression_level(options.compression_level); !ok) return propagate(ok);
  auto layout = lay_out(state, metadata, options.limits,
                        options.references != nullptr ? *options.references : References());
  if (!layout) return propagate(layout);
  Writer writer(std::move(*layout), options);
  writer.carried_ = choose_carried(writer.layout_, writer.is_compressed(), options.carry);
  writer.divide_into_pieces();
  return writer;
}

std::optional<ByteSpan> Writer::memory_to_borrow(std::uint32_t tensor) const {
  auto memory = layout_.tensors[tensor]->data.memory();
  if (memory && memory->size() < kBorrowBytes) memory.reset();
  return memory;
}

// The bytes of a whole piece in the memory of its tensor.
std::optional<ByteSpan> Writer::borrowed(const Piece& piece) const {
  const auto memory = memory_to_borrow(piece.tensor);
  if (!memory) return std::nullopt;
  const std::uint32_t first =
      piece.first_chunk - layout_.index.tables().tensors[piece.tensor].first_chunk;
  return memory->subspan(static_cast<std::size_t>(first * kChunkBytes),
                         static_cast<std::size_t>(piece.length));
}

// Where a chunk is taken over from, or null.
const ChunkRecord* Writer::carried(std::uint32_t tensor, std::uint32_t chunk) const {
  if (carried_[tensor].empty()) return nullptr;
  return &carried_[tensor][chunk - layout_.index.tables().tensors[tensor].first_chunk];
}

// Whether no piece has bytes of this tensor and of another.
bool Writer::stands_alone(std::uint32_t tensor) const {
  if (carried_[tensor].empty()) return !is_compressed() && memory_to_borrow(tensor);
  const Tables& t = layout_.index.tables();
  return table_tensor_bytes(t, t.tensors[tensor]) >= kBorrowBytes;
}

// Whether a chunk of `tensor` may join the piece that ends right before it.
bool Writer::fits(const Piece& piece, std::uint32_t tensor, const ChunkRecord& chunk) const {
  const Tables& t = layout_.index.tables();
  const std::uint64_t begin = t.chunks[piece.first_chunk].offset;
  if (chunk.offset + chunk.stored - begin > kPieceBytes) return false;
  // Patches are made already.
  if (is_patches(piece) != chunk.is_patch()) return false;
  if (tensor == piece.tensor) return true;
  if (!chunk.is_patch() && (stands_alone(piece.tensor) || stands_alone(tensor))) return false;
  // A compressed piece gets its offset later. A piece that begins with a tensor has an aligned
  // offset, so the offsets within it are known now.
  return !is_compressed() || begins_aligned(piece);
}

// Whether the first chunk of a piece begins at a multiple of kTensorAlignment.
bool Writer::begins_aligned(const Piece& piece) const {
  const Tables& t = layout_.index.tables();
  const TensorRecord& tensor = t.tensors[piece.tensor];
  return is_aligned_chunk(t, tensor, piece.first_chunk - tensor.first_chunk);
}

// Whether the piece has patches, and nothing else.
bool Writer::is_patches(const Piece& piece) const {
  return layout_.index.tables().chunks[piece.first_chunk].is_patch();
}

void Writer::divide_into_pieces() {
  const Tables& t = layout_.index.tables();
  std::uint32_t tensor = 0;
  for (std::uint32_t i = 0; i < t.chunks.size(); ++i) {
    const ChunkRecord& chunk = t.chunks[i];
    tensor = table_tensor_of(t, i, tensor);
    if (chunk.file != 0) continue;
    const bool follows =
        !pieces_.empty() && i == pieces_.back().first_chunk + pieces_.back().chunk_count;
    if (!follows || !fits(pieces_.back(), tensor, chunk)) {
      pieces_.push_back({.first_chunk = i, .tensor = tensor});
    }
    Piece& piece = pieces_.back();
    ++piece.chunk_count;
    piece.is_streamed |= !chunk.is_patch() && layout_.tensors[tensor]->data.is_streamed();
    piece.length = chunk.offset + chunk.stored - t.chunks[piece.first_chunk].offset;
  }
  made_.assign(pieces_.size(), 0);
  if (is_compressed()) end_ = kHeaderBytes + layout_.index.bytes().size();
}

std::uint64_t Writer::scratch_bytes() const {
  std::uint64_t piece_bytes = 0;  // of the longest piece that needs a buffer
  std::uint64_t chunk_bytes = 0;
  for (const Piece& piece : pieces_) {
    if (!is_compressed() && memory_to_borrow(piece.tensor) && !is_patches(piece)) continue;
    piece_bytes = std::max(piece_bytes, piece.length);
    const std::uint64_t logical = piece.is_streamed ? piece.length : kChunkBytes;
    chunk_bytes = std::max(chunk_bytes, std::min(logical, piece.length));
  }
  if (!is_compressed()) return piece_bytes;
  return piece_bytes + chunk_bytes + ChunkEncoder::memory_bytes(options_.compression_level);
}

// Where the bytes of a piece are collected as they lie in an uncompressed file.
MutableByteSpan Writer::room_for(const Piece& piece, Scratch& scratch) const {
  std::vector<std::byte>& memory = is_compressed() ? scratch.chunk_ : scratch.piece_;
  const auto length = static_cast<std::size_t>(piece.length);
  if (memory.size() < length) memory.resize(length);
  return MutableByteSpan(memory).first(length);
}

Result<void> Writer::read(std::size_t i, Scratch& scratch) {
  const Piece& piece = pieces_[i];
  const Tables& t = layout_.index.tables();
  const auto chunks = t.chunks.subspan(piece.first_chunk, piece.chunk_count);
  const MutableByteSpan room = room_for(piece, scratch);
  std::uint32_t tensor = piece.tensor;
  scratch.read_.reset();
  for (std::uint32_t k = 0; k < piece.chunk_count; ++k) {
    tensor = table_tensor_of(t, piece.first_chunk + k, tensor);
    if (!layout_.tensors[tensor]->data.is_streamed()) continue;
    const auto begin = static_cast<std::size_t>(chunks[k].offset - chunks.front().offset);
    const auto bytes =
        logical_bytes(tensor, piece.first_chunk + k, room.subspan(begin, chunks[k].stored), false);
    if (!bytes) return propagate(bytes);
  }
  scratch.read_ = i;
  return {};
}

std::vector<Writer::Need> Writer::needs(std::size_t i) const {
  const Piece& piece = pieces_[i];
  std::vector<Need> needs;
  if (is_patches(piece)) return needs;
  const Tables& t = layout_.index.tables();
  std::uint32_t tensor = piece.tensor;
  for (std::uint32_t k = piece.first_chunk; k < piece.first_chunk + piece.chunk_count; ++k) {
    tensor = table_tensor_of(t, k, tensor);
    const TensorRecord& record = t.tensors[tensor];
    const std::uint32_t in_tensor = k - record.first_chunk;
    Need need{.tensor = layout_.tensors[tensor].get()};
    if (const ChunkRecord* from = carried(tensor, k)) {
      need.is_stored = true;
      need.extent = {from->file, from->offset, from->stored};
    } else {
      need.extent = {0, in_tensor * kChunkBytes,
                     chunk_length(table_tensor_bytes(t, record), in_tensor)};
    }
    // What make() copies at once is one range.
    if (!needs.empty() && needs.back().tensor == need.tensor &&
        needs.back().is_stored == need.is_stored && needs.back().extent.file == need.extent.file &&
        needs.back().extent.offset + needs.back().extent.length == need.extent.offset) {
      needs.back().extent.length += need.extent.length;
    } else {
      needs.push_back(need);
    }
  }
  return needs;
}

std::optional<Writer::StoredPiece> Writer::carry(std::size_t i) {
  const Piece& piece = pieces_[i];
  if (carried_[piece.tensor].empty() || !stands_alone(piece.tensor) || is_patches(piece)) {
    return std::nullopt;
  }
  const ChunkRecord* from = carried(piece.tensor, piece.first_chunk);
  Extent extent{from->file, from->offset, from->stored};
  for (std::uint32_t k = 1; k < piece.chunk_count; ++k) {
    if (from[k].file != extent.file || from[k].offset != extent.offset + extent.length) {
      return std::nullopt;  // make() gathers them.
    }
    extent.length += from[k].stored;
  }
  if (made_[i] == 0) {
    const auto chunks = layout_.index.chunks().subspan(piece.first_chunk, piece.chunk_count);
    for (std::uint32_t k = 0; k < piece.chunk_count; ++k) {
      if (is_compressed()) chunks[k].offset = from[k].offset - extent.offset;
      take_over(chunks[k], from[k]);
    }
    made_[i] = 1;
  }
  return StoredPiece{layout_.tensors[piece.tensor]->data.stored()->bytes.get(), extent};
}

Result<ByteSpan> Writer::make_carried(const Piece& piece, const StoredPiece& stored,
                                      Scratch& scratch) const {
  if (const auto bytes = borrowed(piece); bytes && !is_compressed()) return *bytes;
  const auto length = static_cast<std::size_t>(stored.extent.length);
  if (scratch.piece_.size() < length) scratch.piece_.resize(length);
  const MutableByteSpan room(scratch.piece_.data(), length);
  auto copied = stored.source->copy(stored.extent, room);
  if (!copied) return carry_failed(piece.tensor, std::move(copied.error()));
  return ByteSpan(room);
}

// The stored bytes of a chunk, for a piece with several tensors.
Result<ByteSpan> Writer::read_carried(std::uint32_t tensor, const ChunkRecord& from,
                                      MutableByteSpan room) const {
  const StoredTensor& stored = *layout_.tensors[tensor]->data.stored();
  const Extent extent{from.file, from.offset, from.stored};
  auto bytes = stored.bytes->read(extent, room);
  if (bytes) {
    if (auto ok = check_answer(extent, *bytes); !ok) bytes = propagate(ok);
  }
  if (!bytes) return carry_failed(tensor, std::move(bytes.error()));
  return bytes;
}

tl::unexpected<Error> Writer::carry_failed(std::uint32_t tensor, Error error) const {
  error.path = find_tensor_path(layout_.index.tables(), tensor);
  const auto files = layout_.tensors[tensor]->data.stored()->catalog->files();
  const std::uint32_t file = carried_[tensor].front().file;
  // A copy of a catalog has no files.
  if (error.file.empty() && file < files.size()) error.file = files[file].name;
  return tl::unexpected<Error>(std::move(error));
}

// That nobody wrote to the files while tensors were taken over from them: the hashes would be those
// of other bytes.
Result<void> Writer::check_carried() const {
  const ByteSource* source = nullptr;  // of the tensor before
  for (std::uint32_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].empty()) continue;
    const ByteSource* const from = layout_.tensors[i]->data.stored()->bytes.get();
    if (from == std::exchange(source, from) || !from->may_have_changed()) continue;
    return carry_failed(i, {ErrorCode::kFileChanged,
                            Error::kNoOffset,
                            {},
                            "the file that this tensor comes from was written to during the save; "
                            "nothing was saved"});
  }
  return {};
}

Result<ByteSpan> Writer::make(std::size_t i, Scratch& scratch) {
  if (is_patches(pieces_[i])) {
    made_[i] = 1;
    return make_patches(pieces_[i], scratch);
  }
  if (const auto stored = carry(i)) return make_carried(pieces_[i], *stored, scratch);
  if (pieces_[i].is_streamed && scratch.read_ != i) {
    if (auto ok = read(i, scratch); !ok) return propagate(ok);
  }
  scratch.read_.reset();
  auto made =
      is_compressed() ? make_compressed(pieces_[i], scratch) : make_plain(pieces_[i], scratch);
  if (made) made_[i] = 1;
  return made;
}

// The bytes of a chunk: in the tensor's own memory, or made in `room`, where those of a streamed
// tensor may be already.
Result<ByteSpan> Writer::logical_bytes(std::uint32_t tensor, std::uint32_t chunk,
                                       MutableByteSpan room, bool is_read) {
  const Tables& t = layout_.index.tables();
  const std::uint64_t begin = std::uint64_t{chunk - t.tensors[tensor].first_chunk} * kChunkBytes;
  const TensorData& data = layout_.tensors[tensor]->data;
  if (const auto memory = data.memory()) {
    return memory->subspan(static_cast<std::size_t>(begin), room.size());
  }
  if (is_read && data.is_streamed()) return ByteSpan(room);
  if (auto ok = data.read(begin, room); !ok) {
    if (ok.error().path.empty()) ok.error().path = find_tensor_path(t, tensor);
    return propagate(ok);
  }
  return ByteSpan(room);
}

// Chunk offsets are relative to the piece in a compressed file: see make_compressed().
ByteSpan Writer::make_patches(const Piece& piece, Scratch& scratch) {
  const auto chunks = layout_.index.chunks().subspan(piece.first_chunk, piece.chunk_count);
  const std::uint64_t base = chunks.front().offset;
  if (scratch.piece_.size() < piece.length) {
    scratch.piece_.resize(static_cast<std::size_t>(piece.length));
  }
  const MutableByteSpan out =
      MutableByteSpan(scratch.piece_).first(static_cast<std::size_t>(piece.length));
  std::fill(out.begin(), out.end(), std::byte{0});
  for (std::uint32_t k = 0; k < piece.chunk_count; ++k) {
    const auto begin = chunks[k].offset - base;
    const auto& patch = *layout_.patches.at(piece.first_chunk + k);
    std::copy(patch.begin(), patch.end(), out.begin() + static_cast<std::ptrdiff_t>(begin));
    if (is_compressed()) chunks[k].offset = begin;
  }
  return out;
}

Result<ByteSpan> Writer::make_plain(const Piece& piece, Scratch& scratch) {
  const auto chunks = layout_.index.chunks().subspan(piece.first_chunk, piece.chunk_count);
  const std::uint64_t base = chunks.front().offset;
  if (const auto bytes = borrowed(piece)) {
    for (ChunkRecord& chunk : chunks) {
      chunk.hash =
          hash128(bytes->subspan(static_cast<std::size_t>(chunk.offset - base), chunk.stored));
    }
    return *bytes;
  }
  const Tables& t = layout_.index.tables();
  const MutableByteSpan out = room_for(piece, scratch);
  std::uint32_t tensor = piece.tensor;
  std::size_t filled = 0;
  for (std::uint32_t k = 0; k < piece.chunk_count; ++k) {
    ChunkRecord& chunk = chunks[k];
    tensor = table_tensor_of(t, piece.first_chunk + k, tensor);
    const auto begin = static_cast<std::size_t>(chunk.offset - base);
    std::fill(out.data() + filled, out.data() + begin, std::byte{0});
    const auto room = out.subspan(begin, chunk.stored);
    const ChunkRecord* from = carried(tensor, piece.first_chunk + k);
    auto bytes = from != nullptr ? read_carried(tensor, *from, room)
                                 : logical_bytes(tensor, piece.first_chunk + k, room, true);
    if (!bytes) return bytes;
    if (bytes->data() != room.data()) std::copy(bytes->begin(), bytes->end(), room.begin());
    chunk.hash = from != nullptr ? from->hash : hash128(room);
    filled = begin + chunk.stored;
  }
  return ByteSpan(out);
}

// Chunk offsets are relative to the piece until place() adds its offset.
Result<ByteSpan> Writer::make_compressed(const Piece& piece, Scratch& scratch) {
  const auto chunks = layout_.index.chunks().subspan(piece.first_chunk, piece.chunk_count);
  const Tables& t = layout_.index.tables();
  if (!scratch.encoder_) scratch.encoder_.emplace(options_.compression_level);
  // Encoding never makes a chunk longer.
  if (scratch.piece_.size() < piece.length) {
    scratch.piece_.resize(static_cast<std::size_t>(piece.length));
  }
  const std::uint64_t base = chunks.front().offset;  // Encoding changes the first chunk's.
  std::uint32_t tensor = piece.tensor;
  std::size_t filled = 0;
  for (std::uint32_t k = 0; k < piece.chunk_count; ++k) {
    ChunkRecord& chunk = chunks[k];
    tensor = table_tensor_of(t, piece.first_chunk + k, tensor);
    const TensorRecord& record = t.tensors[tensor];
    const std::uint32_t in_tensor = piece.first_chunk + k - record.first_chunk;
    const auto length =
        static_cast<std::size_t>(chunk_length(table_tensor_bytes(t, record), in_tensor));
    const auto begin =
        is_aligned_chunk(t, record, in_tensor) ? static_cast<std::size_t>(align(filled)) : filled;
    std::fill(scratch.piece_.data() + filled, scratch.piece_.data() + begin, std::byte{0});
    if (const ChunkRecord* from = carried(tensor, piece.first_chunk + k)) {
      const auto room = MutableByteSpan(scratch.piece_).subspan(begin, from->stored);
      auto bytes = read_carried(tensor, *from, room);
      if (!bytes) return bytes;
      if (bytes->data() != room.data()) std::copy(bytes->begin(), bytes->end(), room.begin());
      take_over(chunk, *from);
      chunk.offset = begin;
      filled = begin + chunk.stored;
      continue;
    }
    MutableByteSpan room;
    if (piece.is_streamed) {
      room =
          room_for(piece, scratch).subspan(static_cast<std::size_t>(chunk.offset - base), length);
    } else {
      if (scratch.chunk_.size() < length) scratch.chunk_.resize(length);
      room = MutableByteSpan(scratch.chunk_).first(length);
    }
    auto logical = logical_bytes(tensor, piece.first_chunk + k, room, true);
    if (!logical) return logical;
    chunk.hash = hash128(*logical);
    const auto encoded =
        scratch.encoder_->encode(*logical, element_layout(static_cast<DType>(record.dtype)));
    if (!encoded) return propagate(encoded);
    std::copy(encoded->bytes.begin(), encoded->bytes.end(), scratch.piece_.data() + begin);
    chunk.offset = begin;
    chunk.stored = static_cast<std::uint32_t>(encoded->bytes.size());
    chunk.codec = static_cast<std::uint8_t>(encoded->codec);
    filled = begin + chunk.stored;
  }
  return ByteSpan(scratch.piece_).first(filled);
}

Extent Writer::place(std::size_t i) {
  const Piece& piece = pieces_[i];
  const auto chunks = layout_.index.chunks().subspan(piece.first_chunk, piece.chunk_count);
  if (is_compressed()) {
    const std::uint64_t base = begins_aligned(piece) ? align(end_) : end_;
    for (ChunkRecord& chunk : chunks) chunk.offset += base;
    end_ = chunks.back().offset + chunks.back().stored;
    if (++placed_ == pieces_.size()) layout_.file_length = end_;
  }
  const std::uint64_t begin = chunks.front().offset;
  return {0, begin, chunks.back().offset + chunks.back().stored - begin};
}

Result<Writer::Front> Writer::finish() {
  if (std::find(made_.begin(), made_.end(), 0) != made_.end() ||
      (is_compressed() && placed_ != pieces_.size())) {
    return fail(ErrorCode::kIncomplete, "the file cannot be finished before every piece is made");
  }
  if (auto ok = check_carried(); !ok) return propagate(ok);
  // The pieces are no longer needed, and digests need memory.
  release_memory(layout_.tensors);
  auto digests = node_digests(layout_.index.tables());
  if (!digests) {
    digests.error().code = ErrorCode::kInvalidTree;
    return propagate(digests);
  }
  const ByteSpan index = layout_.index.bytes();
  return Front{encode_header({.features = features_of(layout_.index.tables()),
                              .file_length = layout_.file_length,
                              .index_length = index.size(),
                              .index_hash = hash128(index),
                              .tree_digest = digests->front()}),
               index};
}

}  // namespace espalier
