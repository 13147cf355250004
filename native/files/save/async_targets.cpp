#include "files/save/async_targets.h"

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

#include "files/os/file_ops.h"

namespace espalier {

class Completion {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_complete_; });
  }
  void complete() noexcept {
    const std::lock_guard lock(mutex_);
    is_complete_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_complete_ = false;
};

namespace {

// A folder, and a name in it.
using TargetId = std::tuple<dev_t, ino_t, std::string>;

// The last place for each target. Entries whose save is done are expired.
struct Lines {
  std::mutex mutex;
  std::map<TargetId, std::weak_ptr<Completion>> last;
  pid_t process = ::getpid();

  // A forked child has none of the saves that its parent has.
  void forget_parents() {
    if (process == ::getpid()) return;
    last.clear();
    process = ::getpid();
  }
};

// Never destroyed: saves may run while the program ends.
Lines& lines() {
  static auto* const all = new Lines();
  return *all;
}

Result<TargetId> id_of(const SaveTarget& target, FileOps& ops) {
  struct stat status = {};
  if (ops.fstat(target.folder.get(), &status) != 0) {
    return fail_with_errno(errno, "examine the folder");
  }
  return TargetId(status.st_dev, status.st_ino, target.name);
}

}  // namespace

Result<TargetPlace> TargetPlace::take(const SaveTarget& target, FileOps& ops) {
  auto id = id_of(target, ops);
  if (!id) return propagate(id);
  TargetPlace place;
  place.own_ = std::make_shared<Completion>();
  Lines& all = lines();
  const std::lock_guard lock(all.mutex);
  all.forget_parents();
  std::erase_if(all.last, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Completion>& last = all.last[std::move(*id)];
  place.before_ = last.lock();
  last = place.own_;
  return place;
}

void TargetPlace::wait() const {
  if (before_ != nullptr) before_->wait();
}

void TargetPlace::leave() noexcept {
  before_.reset();
  if (own_ != nullptr) own_->complete();
  own_.reset();
}

Result<void> wait_for_async_saves(const SaveTarget& target, FileOps& ops) {
  Lines& all = lines();
  std::shared_ptr<Completion> last;
  {
    const std::lock_guard lock(all.mutex);
    all.forget_parents();
    if (all.last.empty()) return {};
  }
  const auto id = id_of(target, ops);
  if (!id) return propagate(id);
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.last.find(*id);
    if (found != all.last.end()) last = found->second.lock();
  }
  if (last != nullptr) last->wait();
  return {};
}

}  // namespace espalier
