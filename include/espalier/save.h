// Saves a state tree: to a file on disk, to memory, or to a sink of your own.
//
//   Result<void> saved = save("run.espalier", state);
//   Result<std::vector<std::byte>> bytes = save_to_memory(state, {.compression_level = 1});
#ifndef ESPALIER_SAVE_H_
#define ESPALIER_SAVE_H_

#include <cstddef>
#include <vector>

#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/save_options.h"
#include "espalier/sink.h"
#include "espalier/value.h"

namespace espalier {

struct Contents;  // in checkpoint_file.h

/// Saves `state` as an Espalier file at `path`, completely or not at all: the old file stays until
/// the new one is complete and on the disk. After every error but kDurabilityUnknown the old file
/// is unchanged. You may save over a file that the tree's tensors are mapped from. The tensors must
/// not change during the save. Besides the tensors, a save needs memory for a few times the index
/// (tens of bytes per node during layout) and for buffers: see SaveOptions::memory_bytes. Errors:
/// kInvalidTree or kInvalidArgument (also for a name such as model.safetensors) before anything is
/// written; those of the tensors' producers; kIoError; kCancelled; kOutOfMemory, also if a producer
/// throws std::bad_alloc. Other exceptions of producers propagate and leave the target unchanged.
[[nodiscard]] Result<void> save(const FilePath& path, const Value& state,
                                const SaveOptions& options = {});
/// The same for the contents of another file, which say what the metadata and the compression level
/// are; those of `options` do not count.
[[nodiscard]] Result<void> save(const FilePath& path, const Contents& contents,
                                const SaveOptions& options = {});

/// The same to a sink. `sync`, `replace` and `ops` of the options have no effect. Errors are those
/// above and the sink's.
[[nodiscard]] Result<void> save(Sink& sink, const Value& state, const SaveOptions& options = {});

/// The same to memory: the bytes of the file.
[[nodiscard]] Result<std::vector<std::byte>> save_to_memory(const Value& state,
                                                            const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_SAVE_H_
