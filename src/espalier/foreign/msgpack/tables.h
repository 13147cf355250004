// Converts a parsed msgpack file to the records of a catalog.
#ifndef ESPALIER_FOREIGN_MSGPACK_TABLES_H_
#define ESPALIER_FOREIGN_MSGPACK_TABLES_H_

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/msgpack/arrays_beside.h"
#include "espalier/foreign/msgpack/tree.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// Builds the tables of a tree, and adds to `notes` what is not as it may seem. Arrays that flax
/// has cut into chunks are one tensor each. kForeignInvalid, with the path, for an array whose
/// bytes do not fit its shape and for a key that comes twice; kLimitExceeded. `beside` has the
/// arrays that texts stand for, and gets the path of its damage.
[[nodiscard]] Result<OwnedTables> msgpack_tables(const MsgpackTree& tree, const Limits& limits,
                                                 MsgpackArraysBeside& beside, Notes& notes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_TABLES_H_
