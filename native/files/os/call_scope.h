// The call that a thread works for, so that what waits for a network sees that it was given up.
#ifndef ESPALIER_FILES_OS_CALL_SCOPE_H_
#define ESPALIER_FILES_OS_CALL_SCOPE_H_

#include <atomic>

namespace espalier {

/// While it lives, the calling thread works for a call that `cancel` gives up (null: for none). The
/// threads that parallel_for() starts work for the call of the thread that calls it. A Source may
/// serve several calls at once, so it cannot be told whose bytes it fetches in any other way.
class CallScope {
 public:
  explicit CallScope(const std::atomic<bool>* cancel) noexcept : before_(current_) {
    current_ = cancel;
  }
  ~CallScope() { current_ = before_; }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  /// The flag of the call that this thread works for; null if there is none.
  static const std::atomic<bool>* current() noexcept { return current_; }
  static bool is_cancelled() noexcept { return current_ != nullptr && *current_; }

 private:
  static inline thread_local const std::atomic<bool>* current_ = nullptr;
  const std::atomic<bool>* before_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_CALL_SCOPE_H_
