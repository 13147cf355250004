// A checkpoint behind the handle of abi.h, and helpers for all functions that take handles.
#ifndef ESPALIER_WASM_TREE_HANDLE_H_
#define ESPALIER_WASM_TREE_HANDLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/health/state_parts.h"
#include "espalier/read/totals.h"

namespace espalier::abi {

inline Extent extent_of(const espalier::Extent& extent) {
  return {extent.file, 0, extent.offset, extent.length};
}

/// Fails with "there is no `what` with number `number`".
inline Status no_such(std::string_view what, std::uint32_t number) {
  return set_failure(
      {ErrorCode::kInvalidArgument,
       Error::kNoOffset,
       {},
       "there is no " + std::string(what) + " with number " + std::to_string(number)});
}

class Tree {
 public:
  explicit Tree(Checkpoint opened) : checkpoint(std::move(opened)) {}

  const Tables& tables() const { return checkpoint.catalog().tables(); }
  bool has_node(std::uint32_t node) const { return node < tables().nodes.size(); }
  NodeRef node(std::uint32_t number) const { return {&checkpoint.catalog(), number}; }

  std::uint32_t parent(std::uint32_t node) {
    if (parents_.empty()) {
      const auto nodes = tables().nodes;
      parents_.assign(nodes.size(), kNone);
      for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        if (!is_container(node_kind(nodes[i]))) continue;
        std::fill_n(parents_.data() + nodes[i].value, nodes[i].count, i);
      }
    }
    return parents_[node];
  }

  Checkpoint checkpoint;
  std::vector<FileEntry> files;         // of a base of a write
  std::string path;                     // of the last espalier_path() or espalier_tensor_path()
  std::string keys;                     // of the last espalier_keys()
  std::vector<std::uint32_t> key_ends;  // likewise
  std::vector<Text> axis_names;         // of the last espalier_tensor()
  std::optional<SubtreeTotals> totals;  // since the first espalier_totals()
  std::vector<StatePart> parts;         // since the first espalier_parts()

 private:
  std::vector<std::uint32_t> parents_;
};

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_TREE_HANDLE_H_
