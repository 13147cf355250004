// Treats the input as an index, under a matching header, so no hash stops it. Opens it with the
// usual limits and with tight ones.
#include "espalier/format/index.h"

#include <algorithm>
#include <utility>

#include "fuzz.h"

#include "espalier/base/arena.h"
#include "espalier/codec/hash.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/read/to_value.h"

namespace espalier::fuzz {
namespace {

Header header_for(const Arena& index) {
  Header header;
  header.index_length = index.bytes().size();
  header.index_hash = hash128(index.bytes());
  header.file_length = header.index_end();
  // Of the version that it is.
  auto tables = decode_index(index.bytes(), 0, 0);
  if (!tables) {
    tables = decode_index(index.bytes(), 0, 1);
    header.minor = 1;
  }
  if (!tables) return header;
  header.features = features_of(*tables);
  // The end of the file from the last chunk in it, unless that is absurd.
  for (const ChunkRecord& chunk : tables->chunks) {
    if (chunk.file != 0) continue;
    header.file_length = (chunk.offset >> 62 == 0 ? chunk.offset : 0) + chunk.stored;
  }
  return header;
}

Result<Checkpoint> open(ByteSpan input, const Limits& limits) {
  auto index = Arena::allocate(input.size());
  if (!index) return propagate(index);
  std::ranges::copy(input, index->bytes().begin());
  const Header header = header_for(*index);
  const ByteSpan bytes = std::as_const(*index).bytes();
  const auto tables = open_index(header, bytes);
  if (!tables) return propagate(tables);
  if (auto ok = check_file_table(*tables, bytes.data()); !ok) return propagate(ok);
  FileSet files =
      file_set(*tables, {.length = header.file_length, .data_begin = header.index_end()});
  auto catalog = Catalog::from_index(header, std::move(*index), *tables, std::move(files), limits);
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
    const Value state = to_value(checkpoint->state());
    fuzz::require(state.children().size() == checkpoint->state().size(),
                  "a tree becomes another value");
  }
  testing::Random random(hash128(input).low);
  fuzz::check_limited(checkpoint, fuzz::open(input, fuzz::tight_limits(random)));
  return 0;
}
