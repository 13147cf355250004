// The index as a FlatBuffer: the one reader and the one writer of generated code.
#ifndef ESPALIER_FORMAT_INDEX_H_
#define ESPALIER_FORMAT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "espalier/base/arena.h"
#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/header.h"
#include "espalier/format/owned_tables.h"

namespace espalier {

/// Views of the vectors of an index. Checks that it is a well-formed, aligned FlatBuffer of the
/// schema and nothing about what it says: that is validate()'s job. `bytes` must be aligned to 8
/// and outlive the views. `minor` is the format's minor version, 0 or 1, which decides what vectors
/// there are. Errors give offsets from the start of the index plus `file_offset`.
[[nodiscard]] Result<Tables> decode_index(ByteSpan bytes, std::uint64_t file_offset,
                                          std::uint16_t minor);

/// The same for the index that `header` describes, after checking that `bytes` match its hash.
[[nodiscard]] Result<Tables> open_index(const Header& header, ByteSpan bytes);

/// An encoded index that can still be patched. Movable.
class EncodedIndex {
 public:
  /// The canonical FlatBuffer of `tables`, with `chunks` chunk records that are all zero, to be
  /// filled in place; `tables.chunks` is not looked at. It is one of version 1.1 if there are files
  /// or bases. An index of millions of tensors is not held
  /// twice: each table is freed as soon as it is in there. kLimitExceeded if the index would pass
  /// 2^31 - 1 bytes; kOutOfMemory.
  [[nodiscard]] static Result<EncodedIndex> encode(OwnedTables tables, std::size_t chunks);

  ByteSpan bytes() const { return memory_.bytes(); }
  /// Views of every table inside bytes().
  const Tables& tables() const { return tables_; }
  /// The chunk records inside bytes(): hashes, offsets and lengths may be written here in place.
  std::span<ChunkRecord> chunks();

 private:
  EncodedIndex(Arena memory, const Tables& tables) : memory_(std::move(memory)), tables_(tables) {}

  Arena memory_;
  Tables tables_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_INDEX_H_
