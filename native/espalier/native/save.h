// Saves a state tree to a file on disk.
//
//   Result<void> saved = save("run.espalier", state);
#ifndef ESPALIER_NATIVE_SAVE_H_
#define ESPALIER_NATIVE_SAVE_H_

#include <filesystem>

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/native/file_ops.h"
#include "espalier/native/parallel.h"
#include "espalier/tree/value.h"

namespace espalier {

struct SaveOptions {
  /// The file's metadata: a dict without tensors.
  Value metadata = Value::dict();
  /// Waits until the disk has the file: see SinkOptions::sync.
  bool sync = true;
  /// Whether a file at `path` is replaced: see SinkOptions::replace.
  bool replace = true;
  /// Threads that compress, hash and write; 0 for as many as the machine runs at once. The bytes do
  /// not depend on it.
  unsigned threads = 0;
  /// 0 stores tensors as they are; 1 (fast) to 9 (thorough) compresses them: see WriteOptions. Only
  /// Espalier files can be compressed.
  int compression_level = kNoCompression;
  /// What readers must be assumed to accept.
  Limits limits = {};
  Progress progress = {};
  /// The system calls; they must outlive the save.
  FileOps* ops = &FileOps::system();
};

/// Saves `state` as an Espalier file at `path`, completely or not at all: until the new file is
/// whole and on the disk, the old one stays, and on every error but kDurabilityUnknown it still is
/// what it was. Saving over a file that the tree's tensors are mapped from is safe. Besides the
/// tensors it takes memory for a few times the index (tens of bytes per node while it is laid out)
/// and two chunks per thread, or up to nine and what zstd takes when it compresses. The tensors
/// must not change meanwhile. Errors: kInvalidTree or kInvalidArgument before anything is written;
/// those of the tensors' producers; kIoError; kOutOfMemory, also where a producer throws
/// std::bad_alloc. Its other exceptions are thrown on, the target being as it was.
Result<void> save(const std::filesystem::path& path, const Value& state,
                  const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SAVE_H_
