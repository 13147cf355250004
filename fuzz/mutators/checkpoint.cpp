#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "mutators/mutator.h"

#include "espalier/base/arena.h"
#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/header.h"
#include "espalier/format/index.h"
#include "espalier/format/validate.h"

namespace espalier::fuzz {
namespace {

std::uint64_t index_length_of(const Bytes& file) {
  const auto header = decode_header(view(file), {}, ~std::uint64_t{0});
  const std::uint64_t recorded = header ? header->index_length : 0;
  return std::min<std::uint64_t>(recorded, file.size() - kHeaderBytes);
}

// The record is in our own arena.
void set_hash(const ChunkRecord& chunk, const Hash128& hash) {
  const_cast<ChunkRecord&>(chunk).hash = hash;
}

void seal(std::uint8_t* frame, std::size_t sealed) {
  if (sealed < kSealBytes) return;
  const std::uint64_t hash = hash64(view({frame, sealed - kSealBytes}));
  std::memcpy(frame + sealed - kSealBytes, &hash, sizeof hash);
}

std::uint32_t u32_at(const std::uint8_t* stored, std::size_t i) {
  std::uint32_t number = 0;
  std::memcpy(&number, stored + i * sizeof number, sizeof number);
  return number;
}

// Seals the streams that are frames. `lengths` says how long each is once it is decoded, and their
// stored lengths are numbers `first` and following of `stored`.
void seal_streams(std::uint8_t* stored, std::size_t size, std::size_t first,
                  std::span<const std::size_t> lengths) {
  std::size_t at = (first + lengths.size()) * sizeof(std::uint32_t);
  if (size < at) return;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const std::size_t length = u32_at(stored, first + k);
    if (length > size - at) return;
    if (length > 1 && length < lengths[k]) seal(stored + at, length);
    at += length;
  }
}

void seal_chunk(Codec codec, std::uint8_t* stored, std::size_t size, std::size_t width,
                std::size_t elements) {
  if (codec == Codec::kZstd) {
    seal(stored, size);
  } else if (codec == Codec::kPlanes) {
    seal_streams(stored, size, 0, std::vector(width, elements));
  } else if (size >= 2 * sizeof(std::uint32_t)) {
    std::vector<std::size_t> lengths(1 + width, u32_at(stored, 0));
    lengths[0] = u32_at(stored, 1);
    seal_streams(stored, size, 2, lengths);
  }
}

// Seals frames, and sets the hash of chunks that decode. The tables are valid.
void mend_compressed(const Tables& tables, Bytes& file) {
  constexpr std::uint64_t kMostDecoded =
      1 << 16;  // A decompression bomb would waste the campaign's time.
  ChunkDecoder decoder;
  std::uint64_t decoded = 0;
  for (std::uint32_t number = 0; number < tables.tensors.size(); ++number) {
    const TensorRecord& tensor = tables.tensors[number];
    const auto chunks = table_chunks(tables, number);
    const ElementLayout layout = element_layout(static_cast<DType>(tensor.dtype));
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const ChunkRecord& chunk = chunks[i];
      if (chunk.codec == static_cast<std::uint8_t>(Codec::kRaw) || chunk.file != 0) continue;
      std::vector<std::byte> logical(
          static_cast<std::size_t>(chunk_length(table_tensor_bytes(tables, tensor), i)));
      decoded += logical.size();
      if (decoded > kMostDecoded) return;
      std::uint8_t* stored = file.data() + chunk.offset;
      const auto codec = static_cast<Codec>(chunk.codec);
      seal_chunk(codec, stored, chunk.stored, layout.width, logical.size() / layout.width);
      if (decoder.decode(codec, layout, view({stored, chunk.stored}), logical)) {
        set_hash(chunk, hash128(logical));
      }
    }
  }
}

}  // namespace

void mend(Bytes& file, std::size_t index_length) {
  auto arena = Arena::allocate(index_length);
  if (!arena || file.size() < kHeaderBytes + index_length) return;
  std::uint8_t* index = file.data() + kHeaderBytes;
  std::memcpy(arena->bytes().data(), index, index_length);
  Header header;
  header.file_length = file.size();
  header.index_length = index_length;
  const auto minor = load_le<std::uint16_t>(view(file).data() + 10);
  if (const auto tables = decode_index(arena->bytes(), 0, minor)) {
    header.features = features_of(*tables);
    for (const ChunkRecord& chunk : tables->chunks) {
      if (chunk.file != 0) continue;
      if (chunk.offset > file.size() || chunk.stored > file.size() - chunk.offset) continue;
      set_hash(chunk, hash128(view(std::span(file).subspan(chunk.offset, chunk.stored))));
    }
    FileSet files;
    if (check_file_table(*tables, std::as_const(*arena).bytes().data())) {
      files = file_set(*tables, {.length = file.size(), .data_begin = header.index_end()});
    }
    const FileFacts facts{
        .placement = Placement::kCanonical, .features = header.features, .files = files};
    if (!files.empty() && validate(*tables, facts, {})) {
      mend_compressed(*tables, file);
      if (const auto digests = node_digests(*tables)) header.tree_digest = digests->front();
    }
  }
  std::memcpy(index, arena->bytes().data(), index_length);
  header.index_hash = hash128(view({index, index_length}));
  const auto encoded = encode_header(header);
  std::memcpy(file.data(), encoded.data(), encoded.size());
}

Bytes mutate_checkpoint(const Bytes& file, std::size_t most, testing::Random& random,
                        const MutateBytes& mutate) {
  const bool is_checkpoint = file.size() >= kHeaderBytes && has_magic(view(file));
  if (most < file.size() || random.one_in(16)) return mutate_anything(file, most, mutate);
  if (!is_checkpoint) {
    if (random.one_in(2)) return mutate_anything(file, most, mutate);
    Bytes changed = file;
    change_numbers(changed, random);
    return changed;
  }
  const auto index_length = static_cast<std::size_t>(index_length_of(file));
  const auto index_end = file.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + index_length);
  Bytes header(file.begin(), file.begin() + kHeaderBytes);
  Bytes index(file.begin() + kHeaderBytes, index_end);
  Bytes blobs(index_end, file.end());
  const std::size_t spare = most - file.size();
  switch (random.below(12)) {
    case 0:
      change_numbers(header, random);
      break;
    case 1:
      blobs = mutate_anything(std::move(blobs), blobs.size() + spare, mutate);
      break;
    case 2:
      index = mutate_anything(std::move(index), index.size() + spare, mutate);
      break;
    default:
      change_numbers(index, random);
      break;
  }
  const std::size_t new_length = index.size();
  Bytes made = std::move(header);
  made.insert(made.end(), index.begin(), index.end());
  made.insert(made.end(), blobs.begin(), blobs.end());
  if (!random.one_in(4)) mend(made, new_length);
  return made;
}

}  // namespace espalier::fuzz
