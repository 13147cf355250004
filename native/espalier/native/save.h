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
  /// Whether to replace a file at `path`: see SinkOptions::replace.
  bool replace = true;
  /// Threads that compress, hash and write; 0 uses every CPU. The bytes of the file do not depend
  /// on it.
  unsigned threads = 0;
  /// 0 stores tensors as they are; 1 (fast) to 9 (thorough) compresses them: see WriteOptions. Only
  /// Espalier files can be compressed.
  int compression_level = kNoCompression;
  /// Whether to refuse a path whose ending names another format, such as .npy: see
  /// check_format_ending().
  bool check_ending = true;
  /// Limits that the file's readers are assumed to have.
  Limits limits = {};
  Progress progress = {};
  /// The system calls; they must outlive the save.
  FileOps* ops = &FileOps::system();
};

/// Saves `state` as an Espalier file at `path`, completely or not at all: the old file stays until
/// the new one is complete and on the disk. After every error but kDurabilityUnknown the old file
/// is unchanged. You may save over a file that the tree's tensors are mapped from. The tensors must
/// not change during the save. Besides the tensors, a save needs memory for a few times the index
/// (tens of bytes per node during layout) and two chunks per thread; with compression, up to nine
/// chunks per thread and zstd's memory. Errors: kInvalidTree or kInvalidArgument (also for a name
/// such as model.safetensors) before anything is written; those of the tensors' producers;
/// kIoError; kOutOfMemory, also if a producer throws std::bad_alloc. Other exceptions of producers
/// propagate and leave the target unchanged.
[[nodiscard]] Result<void> save(const std::filesystem::path& path, const Value& state,
                                const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SAVE_H_
