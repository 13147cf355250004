// Brings tensors in memory to the state of a checkpoint by its patches, as an inference server does
// after each step of training.
#ifndef ESPALIER_FILES_DELTA_APPLY_H_
#define ESPALIER_FILES_DELTA_APPLY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "files/os/parallel.h"

namespace espalier {

/// A tensor of a checkpoint, and memory that holds an earlier state of it.
struct LiveTensor {
  TensorRef tensor;
  /// As many bytes as the tensor: packed, in C order, little-endian.
  MutableByteSpan bytes;
};

struct ApplyOptions {
  /// Whether a chunk that holds neither the state of the checkpoint nor one that it has patches for
  /// is read whole, and not an error.
  bool read_others = false;
  /// For hashing and decoding.
  Threads threads = {};
  /// Told of the bytes of the tensors that are compared.
  Progress progress = {};
  /// Set it to true, from any thread or a signal handler, to give up with kCancelled.
  const std::atomic<bool>* cancel = nullptr;
};

/// What turns tensors in memory into those of a checkpoint. Every byte that it will write was read,
/// decoded and compared with its hash, so commit() cannot fail. Movable.
class PreparedUpdate {
 public:
  /// Numbers of chunks, of up to 1 MiB each.
  struct Counts {
    std::uint64_t chunks = 0;
    /// Those that hold the state of the checkpoint already: the update was committed before.
    std::uint64_t unchanged = 0;
    /// Those that were patched: the elements that differ are kept.
    std::uint64_t patched = 0;
    /// Those that were read whole.
    std::uint64_t read = 0;
    /// Bytes that commit() writes.
    std::uint64_t changed_bytes = 0;
  };

  /// Compares each MiB of the tensors with what `file` says of it. One that the file has a patch
  /// for is copied, patched and checked; the elements that changed are kept, for bf16 at 6 bytes
  /// each, or all of them where that is less. One that the file stores itself, and not as a patch,
  /// is read. Nothing that is live changes. The tensors may be read meanwhile, and must not change
  /// until commit().
  ///
  /// kBaseMismatch, with the key path, if a tensor holds neither the state of the file nor an
  /// earlier one that it has patches for, which `read_others` reads instead; kInvalidArgument for
  /// memory of another size, memory that overlaps, and a file without hashes; kWrongKind for a
  /// placeholder; errors of reading chunks, such as kFileMissing and kChunkCorrupt; kCancelled;
  /// kOutOfMemory. The same tensor may be there more than once, in the same memory or in other
  /// memory.
  [[nodiscard]] static Result<PreparedUpdate> prepare(const CheckpointFile& file,
                                                      std::span<const LiveTensor> live,
                                                      const ApplyOptions& options = {});

  const Counts& counts() const { return counts_; }

  /// Writes the changes: afterwards the memory holds the tensors of the checkpoint. Takes the time
  /// of copying what changed; reads no file and allocates nothing. A second call does nothing. Stop
  /// whatever reads the tensors during it.
  void commit() noexcept;

 private:
  // Of one chunk: the elements that change, by their positions, or all if there are none.
  struct Change {
    std::byte* chunk;
    std::size_t width;
    std::vector<std::uint32_t> positions;
    std::vector<std::byte> values;
  };
  class Preparation;

  std::vector<Change> changes_;
  Counts counts_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_APPLY_H_
