// Converts the headers of GGUF files to the records of a catalog.
#ifndef ESPALIER_FOREIGN_GGUF_TABLES_H_
#define ESPALIER_FOREIGN_GGUF_TABLES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/gguf/header.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"

namespace espalier {

/// One file, with its complete header.
struct GgufPart {
  std::uint16_t file = 0;
  std::string_view file_name;
  const GgufHeader* header = nullptr;
  /// What the header's pieces are of.
  ByteSpan bytes;
};

/// Builds the tables: a flat dict of the tensors of all parts, in the order of the files, and the
/// metadata: the first part's key-value pairs, then a dict for each other part that has any but
/// "split.*", under its file's name. kForeignInvalid for a name or key that is there twice;
/// kLimitExceeded.
[[nodiscard]] Result<OwnedTables> gguf_tables(std::span<const GgufPart> parts,
                                              const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_GGUF_TABLES_H_
