// Reads the tensors of a file for the health check.
#ifndef ESPALIER_EXAMINE_EXAMINE_FILE_H_
#define ESPALIER_EXAMINE_EXAMINE_FILE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/health/finding.h"

namespace espalier {

/// What is wrong with the numbers of a checkpoint, and how much was looked at.
struct Examination {
  /// Faults first, then warnings, then notes.
  std::vector<Finding> findings;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  /// Tensors without elements that can be looked at: placeholders and opaque blocks.
  std::uint64_t placeholders = 0;
  std::uint64_t opaque = 0;
  /// Matrices that no other tensor resembles. Their size and sign are not judged.
  std::uint64_t alone = 0;
  /// Whether tensors were left out, which others are then not compared with.
  bool is_of_some = false;

  std::uint64_t count(Severity severity) const;
};

/// Surveys the tensors and numbers at `nodes`, each tensor once, and judges them together. Tensors
/// whose bytes are damaged, or whose elements are missing, are findings. A tensor is read by one
/// thread. It reads `progress` and `cancel` of the options, and no others. Fails if a disk or a
/// network fails (kIoError, kFileChanged), without memory (kOutOfMemory), and with kCancelled.
[[nodiscard]] Result<Examination> examine(const CheckpointFile& file,
                                          std::span<const std::uint32_t> nodes, unsigned threads,
                                          const ReadOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_EXAMINE_EXAMINE_FILE_H_
