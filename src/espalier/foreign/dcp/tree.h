// From what .metadata says and the items hold to one checkpoint.
#ifndef ESPALIER_FOREIGN_DCP_TREE_H_
#define ESPALIER_FOREIGN_DCP_TREE_H_

#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/dcp/item.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// The parts of the catalog. `items` are those of `metadata`, and `files` .metadata and after it
/// those that it names, with their problems. A tensor that its items do not make is a placeholder,
/// and a value that cannot be opened null, each with a note. kForeignInvalid for two values at one
/// path, and for a checkpoint that would call something unknown and holds no tensors;
/// kLimitExceeded.
[[nodiscard]] Result<ForeignParts> join_dcp(const DcpMetadata& metadata,
                                            const std::vector<OpenedItem>& items, FileSet files,
                                            Notes notes, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_DCP_TREE_H_
