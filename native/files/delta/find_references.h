// Finds what of a tree lies in other files already, with all threads of a save.
#ifndef ESPALIER_FILES_DELTA_FIND_REFERENCES_H_
#define ESPALIER_FILES_DELTA_FIND_REFERENCES_H_

#include <atomic>
#include <filesystem>
#include <span>

#include "espalier/codec/compression_level.h"
#include "espalier/error.h"
#include "espalier/save_options.h"
#include "espalier/value.h"
#include "espalier/write/references.h"
#include "files/os/parallel.h"

namespace espalier {

struct FindOptions {
  /// As of SaveOptions.
  bool patches = false;
  double most_of_full = 1;
  int compression_level = kNoCompression;
  Threads threads = {};
  /// Told of the bytes of `state` that are compared.
  Progress progress = {};
  const std::atomic<bool>* cancel = nullptr;
};

/// What a ReferenceFinder finds of `state` in `bases`. kInvalidArgument for a base whose name is no
/// is_file_label(), or two files of one name that differ. Errors of reading; kCancelled.
[[nodiscard]] Result<References> find_references(const Value& state,
                                                 std::span<const SaveBase> bases,
                                                 const FindOptions& options);

/// kInvalidArgument if a save at `path` would replace a file of a base: what refers to it would be
/// lost.
[[nodiscard]] Result<void> check_is_no_base(const std::filesystem::path& path,
                                            std::span<const SaveBase> bases);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_FIND_REFERENCES_H_
