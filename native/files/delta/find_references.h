// Finds what of a tree lies in other files already, so that a save need not write it again.
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

/// The chunks of `state` that are equal to those at the same key path of one of `bases`, the first
/// that has the tensor with this dtype and size; and, with `patches`, patches of those that differ
/// a little. Nothing if the file would take more than `most_of_full`. Only hashes are compared, and
/// of a base, its head is read and the chunks that are patched; a base without hashes is read. Not
/// looked for: streamed tensors, which can be read once, and what a base does not hold as it is
/// (compressed by an archive, with strides, in another byte order). If a base turns out to be
/// damaged, its chunks are written in full. A tensor without a counterpart at its path is compared
/// with the one that begins with the same chunk. kInvalidArgument for a base whose name is no
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
