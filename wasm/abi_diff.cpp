// The part of abi.h that compares two trees.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/format/catalog.h"
#include "espalier/format/tables.h"
#include "espalier/report/structure_diff.h"

namespace espalier::abi {

// wasm/src/core/diff.ts reads these bytes.
static_assert(sizeof(DiffInfo) == 16);
static_assert(sizeof(espalier::Difference) == 12 && sizeof(Change) == 1);
static_assert(offsetof(espalier::Difference, a) == 4 && offsetof(espalier::Difference, b) == 8);

namespace {

// wasm/src/core/diff.ts copies a Tables: the address and the count of each span, whose items have
// these sizes.
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

class Diff {
 public:
  StructureDiff found;  // of the state, then of the metadata
  std::size_t in_state = 0;
};

Diff* espalier_diff(Tree* a, Tree* b) {
  const Checkpoint& before = a->checkpoint;
  const Checkpoint& after = b->checkpoint;
  auto state = compare_structure(before, after, {}, {});
  if (!state) return set_failure(std::move(state.error())), nullptr;
  auto metadata = compare_metadata(before, after, {});
  if (!metadata) return set_failure(std::move(metadata.error())), nullptr;
  Diff* diff = new Diff{std::move(*state)};
  auto& all = diff->found.differences;
  diff->in_state = all.size();
  all.insert(all.end(), metadata->differences.begin(), metadata->differences.end());
  return diff;
}

void espalier_diff_info(Diff* diff, DiffInfo* out) {
  *out = {.differences = diff->found.differences.data(),
          .count = static_cast<std::uint32_t>(diff->found.differences.size()),
          .in_state = static_cast<std::uint32_t>(diff->in_state),
          .equal_tensors = static_cast<std::uint32_t>(diff->found.equal_tensors)};
}

void espalier_diff_free(Diff* diff) { delete diff; }

}  // namespace espalier::abi
