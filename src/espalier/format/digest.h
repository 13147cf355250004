// The tree digest: one hash that says whether two files hold the same state.
#ifndef ESPALIER_FORMAT_DIGEST_H_
#define ESPALIER_FORMAT_DIGEST_H_

#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"

namespace espalier {

/// The digest of each node of valid `tables` (docs/format.md section 8), by node number; `[0]` is
/// the tree digest. kTreeInvalid if a set holds the same element twice. Linear but for sorting
/// sets; 16 bytes of memory per node.
[[nodiscard]] Result<std::vector<Hash128>> node_digests(const Tables& tables);

/// The hash that stands for one tensor in the tree digest: of dtype, shape, names and chunk hashes.
Hash128 tensor_digest(const Tables& tables, std::uint32_t tensor);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_DIGEST_H_
