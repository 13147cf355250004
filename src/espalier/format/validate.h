// The one place that decides whether the tables of an index may be believed.
#ifndef ESPALIER_FORMAT_VALIDATE_H_
#define ESPALIER_FORMAT_VALIDATE_H_

#include <cstdint>
#include <span>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/limits.h"

namespace espalier {

/// How a file places its tensors, and so what its chunk records must say.
enum class Placement : std::uint8_t {
  /// An Espalier file: docs/format.md section 6, to the byte.
  kCanonical,
  /// Files of another format: tensors anywhere, in one or several of the files; the chunks of each
  /// ascend by file and offset. The opener of that format has checked how tensors lie to each
  /// other.
  kForeign,
};

/// Facts that the tables must agree with.
struct FileFacts {
  Placement placement = Placement::kCanonical;
  std::uint64_t features = 0;
  /// The files that chunks may lie in; a canonical layout has one.
  std::span<const FileEntry> files = {};
  /// Where the index starts in the file and in memory, so that errors can name file offsets; null
  /// if the tables do not stand in the file.
  const std::byte* index = nullptr;
  std::uint64_t index_offset = 0;
};

/// Checks all of docs/format.md section 9.1 in time linear in the size of the tables, with scratch
/// memory of a bit per text, shape and block and a stack of at most `limits.depth` frames. After
/// success every accessor of a Catalog over these tables is total.
[[nodiscard]] Result<PoolFacts> validate(const Tables& tables, const FileFacts& facts,
                                         const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_VALIDATE_H_
