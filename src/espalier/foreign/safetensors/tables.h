// From a safetensors header to the records of a catalog.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_
#define ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_

#include <cstdint>

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/format/tables.h"

namespace espalier {

/// The label of a metadata dict that is empty because the file has an empty `__metadata__`, which
/// is not the same file as one without.
inline constexpr char kEmptyMetadataLabel[] = "safetensors.__metadata__";

/// Checks what concerns tensors together (names, and that their bytes fill the buffer) and builds
/// the tables: a flat dict of tensors in the order of their bytes, then of their names; the
/// metadata as a dict of strings. `json` is where the header was parsed, from which offsets of
/// errors are computed. kSafetensorsInvalid, kTruncated, kTrailingBytes or kLimitExceeded. Sorts
/// `header.tensors`.
Result<OwnedTables> safetensors_tables(SafetensorsHeader& header, const char* json,
                                       std::uint64_t header_length, std::uint64_t file_length,
                                       const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_
