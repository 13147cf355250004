// The index as a FlatBuffer: the one reader and the one writer of generated code.
#ifndef ESPALIER_FORMAT_INDEX_H_
#define ESPALIER_FORMAT_INDEX_H_

#include <cstdint>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/format/tables.h"

namespace espalier {

/// Views of the vectors of an index. Checks that it is a well-formed, aligned FlatBuffer of the
/// schema and nothing about what it says: that is validate()'s job. `bytes` must be aligned to 8
/// and outlive the views. Errors give offsets from the start of the index plus `file_offset`.
Result<Tables> decode_index(ByteSpan bytes, std::uint64_t file_offset);

/// An encoded index that can still be patched.
struct EncodedIndex {
  std::vector<std::byte> bytes;

  /// The chunk records inside `bytes`: hashes, offsets and lengths may be written here in place.
  std::span<ChunkRecord> chunks();
  /// Views of every table inside `bytes`.
  Tables tables() const;
};

/// The canonical FlatBuffer of `tables`. kLimitExceeded if it would pass 2^31 - 1 bytes.
Result<EncodedIndex> encode_index(const Tables& tables);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_INDEX_H_
