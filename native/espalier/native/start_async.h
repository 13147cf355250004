// Begins a save in the background that has its place in the line of a target.
#ifndef ESPALIER_NATIVE_START_ASYNC_H_
#define ESPALIER_NATIVE_START_ASYNC_H_

#include <memory>

#include "espalier/base/error.h"
#include "espalier/native/async_targets.h"
#include "espalier/native/save_async.h"

namespace espalier {

/// save_async() to `sink`, once the save's turn has come at `place`.
AsyncSave start_async(std::unique_ptr<Sink> sink, TargetPlace place, Value state, Snapshot snapshot,
                      const SaveOptions& options);

/// A save that has failed before it began.
AsyncSave failed_async(Error error);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_START_ASYNC_H_
