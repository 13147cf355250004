// Compares two trees by their indexes.
#ifndef ESPALIER_REPORT_STRUCTURE_DIFF_H_
#define ESPALIER_REPORT_STRUCTURE_DIFF_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/pattern.h"

namespace espalier {

enum class Change : std::uint8_t {
  kOnlyInA,
  kOnlyInB,
  kKind,
  kLabel,
  kValue,
  kDType,  // or the block type
  kShape,
  kAxisNames,
  kKeyOrder,
  kTie,   // the set of nodes that share the tensor
  kData,  // the hashes of a tensor's elements
};

/// The name of a change in JSON: "only_in_a", "kind", "key_order", ...
std::string_view change_name(Change change);

/// One difference and the numbers of its nodes. The node in B is kNoNode for kOnlyInA, and the node
/// in A for kOnlyInB. Both nodes have the same path. A node may have several differences, so they
/// are small.
struct Difference {
  static constexpr std::uint32_t kNoNode = ~std::uint32_t{0};

  Change change = Change::kData;
  std::uint32_t a = kNoNode;
  std::uint32_t b = kNoNode;
};

/// The result of comparing two trees.
struct StructureDiff {
  /// In the order of A's tree.
  std::vector<Difference> differences;
  /// Pairs of tensor nodes whose elements are equal by dtype, shape and hashes.
  std::uint64_t equal_tensors = 0;
  /// Those that have bytes: only hashes say that they are equal.
  std::uint64_t equal_by_hashes = 0;
};

struct DiffOptions {
  /// Compares only what the tree digest covers: no key order, no ties.
  bool state_only = false;
};

/// The differences between the trees below `a` and `b`, restricted to nodes that `patterns` select.
/// Elements of sets have no order and are compared by digest. Tensors of the same dtype and shape
/// are reported as kData unless their hashes are equal; if they have no hashes, the caller must
/// compare their bytes. kNotFound for a pattern that matches nothing in either tree. Recurses as
/// deep as the trees, which Limits::depth bounds.
[[nodiscard]] Result<StructureDiff> compare_structure(const Checkpoint& a, const Checkpoint& b,
                                                      std::span<const Pattern> patterns,
                                                      const DiffOptions& options);

/// The same for the files' metadata.
[[nodiscard]] Result<StructureDiff> compare_metadata(const Checkpoint& a, const Checkpoint& b,
                                                     const DiffOptions& options);

}  // namespace espalier

#endif  // ESPALIER_REPORT_STRUCTURE_DIFF_H_
