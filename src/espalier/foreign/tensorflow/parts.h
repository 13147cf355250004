// From what the index and the graph of a TensorFlow checkpoint say to one checkpoint.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_PARTS_H_
#define ESPALIER_FOREIGN_TENSORFLOW_PARTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/object_tree.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// All that an opener has of a checkpoint.
struct OpenedBundle {
  Bundle bundle;
  ObjectTree tree;
  /// The index, and the shards that have tensors, with their problems.
  FileSet files;
  /// The number of each of these shards in `files`.
  std::map<std::uint32_t, std::uint16_t> shards;
  /// What is stored of strings and variants, by entry.
  std::map<std::uint32_t, std::vector<std::byte>> texts;
  Notes notes;
  /// The first thing that is damaged, which makes verification fail, and a conversion of the whole.
  std::optional<Error> damage;
};

/// The parts of the catalog. What cannot be given is a placeholder, or null for strings, with a
/// note. `opened` must outlive the call. kForeignInvalid for names that are no text;
/// kLimitExceeded.
[[nodiscard]] Result<ForeignParts> make_tensorflow_parts(OpenedBundle& opened,
                                                         const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_PARTS_H_
