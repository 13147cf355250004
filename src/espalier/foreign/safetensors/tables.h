// Converts a safetensors header to the records of a catalog.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_
#define ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_

#include <cstdint>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"

namespace espalier {

/// The label of an empty metadata dict if the file has an empty `__metadata__`. It distinguishes
/// that file from one without `__metadata__`.
inline constexpr char kEmptyMetadataLabel[] = "safetensors.__metadata__";

/// Checks the tensors against each other (names are unique, bytes fill the buffer) and builds the
/// tables: a flat dict of tensors in the order of their bytes, then of their names, and the
/// metadata as a dict of strings. `json` is the parsed header; errors get their offsets from it.
/// kSafetensorsInvalid, kTruncated, kTrailingBytes or kLimitExceeded. Sorts `header.tensors`.
[[nodiscard]] Result<OwnedTables> safetensors_tables(SafetensorsHeader& header, const char* json,
                                                     std::uint64_t header_length,
                                                     std::uint64_t file_length,
                                                     const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_TABLES_H_
