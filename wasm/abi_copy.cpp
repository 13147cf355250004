// The part of abi.h that takes trees of other modules.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "abi.h"
#include "tree_handle.h"

#include "espalier/detail/catalog.h"
#include "espalier/format/owned_tables.h"

namespace espalier::abi {

namespace {

// wasm/src/core/copy-tree.ts copies a Tables: the address and the count of each span, whose items
// have these sizes.
static_assert(sizeof(Tables) == std::size_t{19} * 8);
static_assert(sizeof(NodeRecord) == 16 && sizeof(TensorRecord) == 12 && sizeof(ChunkRecord) == 32);
static_assert(sizeof(LabelRecord) == 8 && sizeof(DictOrderRecord) == 8 && sizeof(AxesRecord) == 8);
static_assert(sizeof(BlockRecord) == 12 && sizeof(StorageRecord) == 32);
static_assert(sizeof(FileRecord) == 48);

template <class T>
std::vector<T> copied(std::span<const T> items) {
  return {items.begin(), items.end()};
}

OwnedTables copied(const Tables& t) {
  return {.nodes = copied(t.nodes),
          .tensors = copied(t.tensors),
          .chunks = copied(t.chunks),
          .shape_ends = copied(t.shape_ends),
          .dims = copied(t.dims),
          .words = copied(t.words),
          .text_ends = copied(t.text_ends),
          .text = copied(t.text),
          .bytes = copied(t.bytes),
          .labels = copied(t.labels),
          .dict_orders = copied(t.dict_orders),
          .order = copied(t.order),
          .axes = copied(t.axes),
          .axis_names = copied(t.axis_names),
          .blocks = copied(t.blocks),
          .files = copied(t.files),
          .bases = copied(t.bases),
          .storages = copied(t.storages),
          .strides = copied(t.strides)};
}

}  // namespace

Tree* espalier_tree_of_tables(const Tables* tables, const std::uint8_t* digest) {
  std::optional<Hash128> tree_digest;
  if (digest != nullptr) std::memcpy(&tree_digest.emplace(), digest, sizeof(Hash128));
  return new Tree(Checkpoint(Catalog::from_copy(copied(*tables), tree_digest)));
}

}  // namespace espalier::abi
