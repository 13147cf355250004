// The part of abi.h that takes trees of other modules.
#include <cstddef>
#include <cstdint>

#include "abi.h"
#include "copied_tables.h"
#include "tree_handle.h"

#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"

namespace espalier::abi {

// wasm/src/core/copy-tree.ts copies a Tables: the address and the count of each span, whose items
// have these sizes.
static_assert(sizeof(Tables) == std::size_t{19} * 8);
static_assert(sizeof(NodeRecord) == 16 && sizeof(TensorRecord) == 12 && sizeof(ChunkRecord) == 32);
static_assert(sizeof(LabelRecord) == 8 && sizeof(DictOrderRecord) == 8 && sizeof(AxesRecord) == 8);
static_assert(sizeof(BlockRecord) == 12 && sizeof(StorageRecord) == 32);
static_assert(sizeof(FileRecord) == 48);

Tree* espalier_tree_of_tables(const Tables* tables, const std::uint8_t* digest) {
  return new Tree(Checkpoint(Catalog::from_copy(copied(*tables), copied(digest))));
}

}  // namespace espalier::abi
