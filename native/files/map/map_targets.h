// Makes the tensors of a key map's targets from the files that have their sources, part by part and
// in bounded memory.
#ifndef ESPALIER_FILES_MAP_MAP_TARGETS_H_
#define ESPALIER_FILES_MAP_MAP_TARGETS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/map/compute.h"
#include "espalier/map/plan.h"
#include "espalier/mapped_checkpoint.h"

namespace espalier {

/// The tensors of a plan. Copies share everything. Thread-safe.
class MapTargets {
 public:
  using Options = MapTargetOptions;

  /// `origins` has the place of each leaf of the plan; of those that are no tensors it means
  /// nothing.
  MapTargets(std::shared_ptr<const MapPlan> plan, std::vector<MapInput> inputs,
             std::vector<std::optional<MapOrigin>> origins, const Options& options);

  /// Bytes of a target that is a tensor.
  std::uint64_t bytes(std::size_t target) const;

  /// Fills `out` with the bytes of a target from `offset` on. Every byte of a source that it needs
  /// is checked against its hash. Errors are those of CheckpointFile::read_chunk();
  /// kLimitExceeded if a computation needs more of its operands at once than the memory.
  [[nodiscard]] Result<void> read(std::size_t target, std::uint64_t offset,
                                  MutableByteSpan out) const;

  /// How often the sources of a target are read to make it from its first byte to its last.
  std::uint64_t passes(std::size_t target) const;

  /// Checks what only the tensors can tell: those that must be equal, and `zeros` that must be
  /// zero. kMapData, with both names and the first element. MappedTrees::check_scalars() compares
  /// the rest.
  [[nodiscard]] Result<void> check(const std::atomic<bool>* cancel = nullptr) const;

  /// What of the sources no target gets although it is not zero: elements that `pad` lost.
  /// Complete after check().
  std::uint64_t lost_elements() const;

  /// What rounding did to the targets that were read, each from its first byte to its last.
  MapRounding rounding() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_MAP_MAP_TARGETS_H_
