// Which targets the background saves of this process have, so that saves to one target complete in
// the order in which they began.
#ifndef ESPALIER_FILES_SAVE_ASYNC_TARGETS_H_
#define ESPALIER_FILES_SAVE_ASYNC_TARGETS_H_

#include <memory>
#include <utility>

#include "espalier/error.h"
#include "files/os/file_ops.h"
#include "files/os/save_target.h"

namespace espalier {

/// The end of a save, which others wait for.
class Completion;

/// A place in the line of saves to one target. Later places wait until it is left: by leave() or
/// the destructor. A forked child does not wait for places of the parent.
class TargetPlace {
 public:
  /// Takes the last place. kIoError; kOutOfMemory.
  [[nodiscard]] static Result<TargetPlace> take(const SaveTarget& target, FileOps& ops);

  TargetPlace() = default;
  TargetPlace(TargetPlace&&) noexcept = default;
  TargetPlace& operator=(TargetPlace&& other) noexcept {
    leave();
    before_ = std::move(other.before_);
    own_ = std::move(other.own_);
    return *this;
  }
  ~TargetPlace() { leave(); }

  /// Waits until all earlier places are left.
  void wait() const;
  void leave() noexcept;

 private:
  std::shared_ptr<Completion> before_;
  std::shared_ptr<Completion> own_;
};

/// Waits until the background saves to the target that began before now are done.
[[nodiscard]] Result<void> wait_for_async_saves(const SaveTarget& target, FileOps& ops);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_ASYNC_TARGETS_H_
