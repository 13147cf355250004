// Treats the input as an index, under a matching header, so no hash stops it. Opens it with the
// usual limits and with tight ones.
#include "espalier/format/index.h"

#include <algorithm>

#include "fuzz.h"

#include "espalier/base/arena.h"
#include "espalier/format/catalog.h"
#include "espalier/read/to_value.h"

namespace espalier::fuzz {
namespace {

Header header_for(const Arena& index) {
  Header header;
  header.index_length = index.bytes().size();
  header.index_hash = hash128(index.bytes());
  header.file_length = header.index_end();
  if (const auto tables = decode_index(index.bytes(), 0); tables && !tables->chunks.empty()) {
    // The end of the file from the last chunk, unless that is absurd.
    const ChunkRecord& last = tables->chunks.back();
    header.file_length = (last.offset >> 62 == 0 ? last.offset : 0) + last.stored;
    for (const ChunkRecord& chunk : tables->chunks) {
      header.features |= feature_of(chunk.codec);
    }
  }
  return header;
}

Result<Checkpoint> open(ByteSpan input, const Limits& limits) {
  auto index = Arena::allocate(input.size());
  if (!index) return propagate(index);
  std::ranges::copy(input, index->bytes().begin());
  const Header header = header_for(*index);
  auto catalog = Catalog::from_index(header, std::move(*index), limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::open(input, {});
  if (checkpoint) {
    fuzz::visit(*checkpoint);
    fuzz::require(to_value(checkpoint->state()).children().size() == checkpoint->state().size(),
                  "a tree becomes another value");
  }
  testing::Random random(hash128(input).low);
  fuzz::check_limited(checkpoint, fuzz::open(input, fuzz::tight_limits(random)));
  return 0;
}
