// Begins a save in the background that has its place in the line of a target.
#ifndef ESPALIER_FILES_SAVE_START_ASYNC_H_
#define ESPALIER_FILES_SAVE_START_ASYNC_H_

#include <memory>
#include <string>

#include "espalier/error.h"
#include "espalier/save_async.h"
#include "files/save/async_targets.h"

namespace espalier {

/// save_async() to `sink`, once the save's turn has come at `place`. Errors are about `file`, which
/// is empty if the sink has no path.
AsyncSave start_async(std::unique_ptr<Sink> sink, TargetPlace place, Value state, Snapshot snapshot,
                      const SaveOptions& options, const std::string& file);

/// A save to `file` that has failed before it began.
AsyncSave failed_async(Error error, const std::string& file);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_START_ASYNC_H_
