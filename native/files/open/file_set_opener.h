// Opens a checkpoint from its files.
#ifndef ESPALIER_FILES_OPEN_FILE_SET_OPENER_H_
#define ESPALIER_FILES_OPEN_FILE_SET_OPENER_H_

#include <functional>
#include <memory>
#include <string>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/read/opening_machine.h"
#include "espalier/source.h"

namespace espalier {

/// A checkpoint and the files that hold its extents.
struct OpenedFiles {
  Checkpoint checkpoint;
  std::shared_ptr<const Source> source;
};

/// Opens a further file of a checkpoint by its name.
using OpenSibling = std::function<Result<std::shared_ptr<const Source>>(const std::string& name)>;

/// Drives `machine` over `first` and over the further files that the machine wants. `open_sibling`
/// gets only names of files beside the first, or below its folder ("d/0f"), with '/' on every
/// system; up to `threads` threads call it. A further file that cannot be opened is not an error
/// here: the machine gets the error, and so do later reads of that file. Made files are made when
/// they are first read, within `limits`. Errors are those of the machine and of reading.
[[nodiscard]] Result<OpenedFiles> open_files(OpeningMachine& machine,
                                             std::shared_ptr<const Source> first,
                                             const OpenSibling& open_sibling, unsigned threads,
                                             const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_FILE_SET_OPENER_H_
