// Converts an ONNX model to the records of a catalog.
#ifndef ESPALIER_FOREIGN_ONNX_TABLES_H_
#define ESPALIER_FOREIGN_ONNX_TABLES_H_

#include <span>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/onnx/model.h"
#include "espalier/format/file_set.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"

namespace espalier {

/// Builds the tables, and adds to `files` those that are made of numbers in other forms, and to
/// the model's notes. `files` has the model and the files that it names. `fetched` has for each
/// tensor the bytes at OnnxPlacement::made, or none: with them, its elements are made at once, and
/// kept. kForeignInvalid, with
/// offset and path, for a tensor whose bytes do not fit its shape, and for a name that is there
/// twice; kLimitExceeded.
[[nodiscard]] Result<OwnedTables> onnx_tables(OnnxModel& model, std::span<const ByteSpan> fetched,
                                              FileSet& files, const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_TABLES_H_
