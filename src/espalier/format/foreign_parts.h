// What an opener of another format makes a catalog of.
#ifndef ESPALIER_FORMAT_FOREIGN_PARTS_H_
#define ESPALIER_FORMAT_FOREIGN_PARTS_H_

#include <optional>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/format/owned_tables.h"
#include "espalier/notes.h"

namespace espalier {

/// All that an opener of another format found.
struct ForeignParts {
  const FormatInfo* format = &kValueFormat;
  /// With chunks whose extents lie in `files`.
  OwnedTables tables;
  FileSet files;
  /// Says that the chunks' hashes are known.
  std::optional<Hash128> tree_digest = std::nullopt;
  Notes notes = {};
  /// As of OpenOptions::nest.
  bool nest = false;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FOREIGN_PARTS_H_
