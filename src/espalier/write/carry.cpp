#include "espalier/write/carry.h"

#include <algorithm>

#include "espalier/format/access.h"
#include "espalier/format/stored_tensor.h"

namespace espalier {
namespace {

// Whether the chunks there are those of `tensor`: a program may have given the data another dtype,
// for which a codec would arrange the bytes in another way.
bool fits(const Tables& t, const TensorRecord& tensor, const Tables& there,
          const TensorRecord& stored) {
  return tensor.dtype == stored.dtype &&
         table_tensor_bytes(t, tensor) == table_tensor_bytes(there, stored);
}

}  // namespace

std::vector<std::span<const ChunkRecord>> choose_carried(const Layout& layout, bool is_compressed,
                                                         Carry carry) {
  const Tables& t = layout.index.tables();
  std::vector<std::span<const ChunkRecord>> chosen(layout.tensors.size());
  if (carry == Carry::kNothing) return chosen;
  const Catalog* catalog = nullptr;  // of the tensor before, and whether it has compressed chunks
  bool is_catalog_compressed = false;
  const ByteSource* source = nullptr;  // of the tensor before, and whether its hashes still tell
  bool is_source_as_opened = false;
  for (std::uint32_t i = 0; i < chosen.size(); ++i) {
    const StoredTensor* stored = layout.tensors[i]->data.stored();
    if (stored == nullptr || t.tensors[i].first_chunk == kNoChunk) continue;
    if (source != stored->bytes.get()) {
      source = stored->bytes.get();
      is_source_as_opened = !source->may_have_changed();
    }
    // Another program wrote to the file: its bytes may be good, but the hashes are of others.
    if (!is_source_as_opened) continue;
    const Tables& there = stored->catalog->tables();
    if (!fits(t, t.tensors[i], there, there.tensors[stored->number])) continue;
    const auto chunks = table_chunks(there, stored->number);
    // The new file would need their bases.
    if (has_patches(chunks)) continue;
    if (!is_compressed) {
      if (!has_compressed(chunks)) chosen[i] = chunks;
      continue;
    }
    if (carry != Carry::kStored) continue;
    if (catalog != stored->catalog.get()) {
      catalog = stored->catalog.get();
      is_catalog_compressed = has_compressed(there.chunks);
    }
    // Nobody has tried to compress the chunks of other files.
    if (is_catalog_compressed) chosen[i] = chunks;
  }
  return chosen;
}

}  // namespace espalier
