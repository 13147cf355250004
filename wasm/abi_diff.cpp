// The part of abi.h that compares two trees.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/report/structure_diff.h"

namespace espalier::abi {

// wasm/src/core/diff.ts reads these bytes.
static_assert(sizeof(DiffInfo) == 16);
static_assert(sizeof(espalier::Difference) == 12 && sizeof(Change) == 1);
// wasm/src/api/parts.ts has the names in this order.
static_assert(sizeof(StatePart) == 1 && static_cast<int>(StatePart::kRest) == 2);
static_assert(offsetof(espalier::Difference, a) == 4 && offsetof(espalier::Difference, b) == 8);

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

const StatePart* espalier_parts(Tree* tree) {
  if (tree->parts.empty()) tree->parts = state_parts(tree->checkpoint);
  return tree->parts.data();
}

}  // namespace espalier::abi
