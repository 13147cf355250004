// Opens a checkpoint with a machine of the caller's.
#ifndef ESPALIER_FILES_OPEN_MACHINE_OPENING_H_
#define ESPALIER_FILES_OPEN_MACHINE_OPENING_H_

#include <filesystem>
#include <functional>
#include <memory>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/read/opening_machine.h"
#include "espalier/source.h"

namespace espalier {

/// CheckpointFile::open() with a machine that makes the checkpoint.
class MachineOpening {
 public:
  /// Makes the machine that opens a file.
  using MakeMachine = std::function<std::unique_ptr<OpeningMachine>(const OpenOptions&)>;

  [[nodiscard]] static Result<CheckpointFile> open(const std::filesystem::path& path,
                                                   const OpenFileOptions& options,
                                                   const MakeMachine& make_machine);
  [[nodiscard]] static Result<CheckpointFile> open(std::shared_ptr<const Source> source,
                                                   const OpenFileOptions& options,
                                                   const MakeMachine& make_machine);
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_MACHINE_OPENING_H_
