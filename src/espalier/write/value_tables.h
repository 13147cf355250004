// Converts a state tree to the tables of its index.
#ifndef ESPALIER_WRITE_VALUE_TABLES_H_
#define ESPALIER_WRITE_VALUE_TABLES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"
#include "espalier/value.h"
#include "espalier/write/references.h"

namespace espalier {

/// A state tree as tables, and the tensors that they describe.
struct ValueTables {
  OwnedTables tables;
  /// Chunk records that the tensors need; `tables` has none.
  std::size_t chunk_count = 0;
  /// By tensor number; each tied tensor once. Includes placeholders.
  std::vector<std::shared_ptr<const Tensor>> tensors;
};

/// Makes the tables of `state` and `metadata` (a dict without tensors). kInvalidTree, with the key
/// path, for values that the format cannot hold. The result shares the tensors with `state`, and
/// lists `files`.
[[nodiscard]] Result<ValueTables> make_tables(const Value& state, const Value& metadata,
                                              std::span<const ReferredFile> files,
                                              const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_WRITE_VALUE_TABLES_H_
