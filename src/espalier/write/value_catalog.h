// A state tree as the catalog of a checkpoint that is in no file.
#ifndef ESPALIER_WRITE_VALUE_CATALOG_H_
#define ESPALIER_WRITE_VALUE_CATALOG_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/value.h"

namespace espalier {

/// A catalog, and where its tensors lie in the one file that it has: each from a multiple of
/// kTensorAlignment on, in chunks of kChunkBytes as they are, without hashes.
struct ValueCatalog {
  struct Placed {
    std::uint64_t begin = 0;
    std::shared_ptr<const Tensor> tensor;
  };

  std::shared_ptr<const Catalog> catalog;
  /// In the order of the file; tensors without bytes are left out.
  std::vector<Placed> placed;
  /// Bytes of the file.
  std::uint64_t size = 0;

  /// The tensor with the byte at `offset`, which must be below `size`.
  const Placed& at(std::uint64_t offset) const;
};

/// Makes the catalog of `state` and `metadata`, a dict without tensors. `nest` is that of
/// OpenOptions. kInvalidTree for what no checkpoint can hold, and for a streamed tensor, which
/// could be read once.
[[nodiscard]] Result<ValueCatalog> make_catalog(const Value& state, const Value& metadata,
                                                bool nest, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_WRITE_VALUE_CATALOG_H_
