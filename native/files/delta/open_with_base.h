// Opens a checkpoint whose base is at hand in another form or under another name.
#ifndef ESPALIER_FILES_DELTA_OPEN_WITH_BASE_H_
#define ESPALIER_FILES_DELTA_OPEN_WITH_BASE_H_

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "files/delta/rewrite_references.h"

namespace espalier {

/// Opens `file` so that it reads each chunk, and each base of a patch, from `base` if `base` has
/// it. Chunks are found by their hashes, however they are stored. All others are read as `file`
/// says. Takes memory for what `file` stores itself. Errors with a key path: kFileMissing if a
/// tensor also needs a file that is missing; kBaseMismatch if `base` has nothing of a chunk and
/// `unfound` is kRefuse. kInvalidArgument if `file` is no Espalier file.
[[nodiscard]] Result<CheckpointFile> open_with_base(const CheckpointFile& file,
                                                    const CheckpointFile& base,
                                                    Unfound unfound = Unfound::kKeep);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_OPEN_WITH_BASE_H_
