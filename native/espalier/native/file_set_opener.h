// Opens a checkpoint from the files of a folder.
#ifndef ESPALIER_NATIVE_FILE_SET_OPENER_H_
#define ESPALIER_NATIVE_FILE_SET_OPENER_H_

#include <filesystem>
#include <memory>

#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/native/source.h"
#include "espalier/read/checkpoint.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// A checkpoint and the files that hold its extents.
struct OpenedFiles {
  Checkpoint checkpoint;
  std::shared_ptr<const Source> source;
};

/// Drives `machine` over `first`, which is at `path`, and over the files of the same folder that
/// the machine wants. A further file that cannot be opened is not an error here: the machine gets
/// the error, and so do later reads of that file. Made files are made when they are first read,
/// within `limits`. Errors are those of the machine and of reading.
[[nodiscard]] Result<OpenedFiles> open_files(OpeningMachine& machine,
                                             std::shared_ptr<const Source> first,
                                             const std::filesystem::path& path, Access access,
                                             const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_FILE_SET_OPENER_H_
