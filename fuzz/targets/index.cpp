// Takes the input for an index, under a header that fits it: no hash is in the way.
#include "espalier/format/index.h"

#include <algorithm>

#include "fuzz.h"

#include "espalier/base/arena.h"
#include "espalier/format/catalog.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  auto arena = Arena::allocate(size);
  if (!arena) return 0;
  const auto input = fuzz::copy_input(data, size);
  std::ranges::copy(input, arena->bytes().begin());
  Header header;
  header.index_length = size;
  header.index_hash = hash128(input);
  header.file_length = header.index_end();
  if (const auto tables = decode_index(arena->bytes(), 0); tables && !tables->chunks.empty()) {
    // The end of the file as the last chunk has it, unless that is absurd.
    const ChunkRecord& last = tables->chunks.back();
    header.file_length = (last.offset >> 62 == 0 ? last.offset : 0) + last.stored;
    for (const ChunkRecord& chunk : tables->chunks) {
      if (chunk.codec == static_cast<std::uint8_t>(Codec::kZstd)) header.features |= kFeatureZstd;
      if (chunk.codec == static_cast<std::uint8_t>(Codec::kFloatPlanes)) {
        header.features |= kFeatureFloatPlanes;
      }
    }
  }
  if (const auto catalog = Catalog::from_index(header, std::move(*arena), {})) {
    fuzz::visit(Checkpoint(*catalog));
  }
  return 0;
}
