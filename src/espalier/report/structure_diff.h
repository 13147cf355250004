// What differs between two trees, as far as their indexes tell.
#ifndef ESPALIER_REPORT_STRUCTURE_DIFF_H_
#define ESPALIER_REPORT_STRUCTURE_DIFF_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/read/checkpoint.h"
#include "espalier/tree/pattern.h"

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
  kTie,   // with which nodes the tensor is shared
  kData,  // a tensor's elements, or rather their hashes
};

/// The name of a change in JSON: "only_in_a", "kind", "key_order", ...
std::string_view change_name(Change change);

/// One difference, and the numbers of the nodes concerned; kNoNode for that of kOnlyInA in B, and
/// the other way round. Both nodes have the same path. There may be several for each node, so they
/// are small.
struct Difference {
  static constexpr std::uint32_t kNoNode = ~std::uint32_t{0};

  Change change = Change::kData;
  std::uint32_t a = kNoNode;
  std::uint32_t b = kNoNode;
};

/// What comparing two trees has found.
struct StructureDiff {
  /// In the order of A's tree.
  std::vector<Difference> differences;
  /// Pairs of tensor nodes whose elements are equal, as far as dtype, shape and hashes tell.
  std::uint64_t equal_tensors = 0;
};

struct DiffOptions {
  /// Compares what the tree digest covers: not the order of keys, nor ties.
  bool state_only = false;
};

/// The differences between the trees below `a` and `b`, where `patterns` select. Elements of sets
/// have no order: they are compared by digest. Tensors of the same dtype and shape are reported as
/// kData unless their hashes are equal: whether they differ, if they have no hashes, is for the
/// caller to find out. kNotFound for a pattern that matches nothing in either tree. Recurses as
/// deep as the trees, which Limits::depth bounds.
Result<StructureDiff> compare_structure(const Checkpoint& a, const Checkpoint& b,
                                        std::span<const Pattern> patterns,
                                        const DiffOptions& options);

/// The same for the files' metadata.
Result<StructureDiff> compare_metadata(const Checkpoint& a, const Checkpoint& b,
                                       const DiffOptions& options);

}  // namespace espalier

#endif  // ESPALIER_REPORT_STRUCTURE_DIFF_H_
