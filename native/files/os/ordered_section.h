// Admits the tasks of several threads one at a time, in order of their numbers.
#ifndef ESPALIER_FILES_OS_ORDERED_SECTION_H_
#define ESPALIER_FILES_OS_ORDERED_SECTION_H_

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace espalier {

/// A critical section that tasks enter one at a time, in turn, from turn 0 on. Thread-safe.
class OrderedSection {
 public:
  /// The turn of task `i`; create it when the task begins. If the task ends without taking its
  /// turn, no later turn comes, and all waiting tasks are released.
  class Turn {
   public:
    Turn(OrderedSection& turns, std::size_t i) : turns_(turns), i_(i) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (!taken_) turns_.give_up(i_);
    }

    /// Waits until all earlier turns have been taken, then calls `step` exclusively. If `step`
    /// returns false or throws, this turn is not taken, and no later one comes. Returns whether
    /// the turn was taken; false without a call if an earlier turn will never be taken.
    template <class Step>
    bool take(const Step& step) {
      std::unique_lock lock(turns_.mutex_);
      turns_.changed_.wait(lock, [&] { return turns_.next_ == i_ || turns_.given_up_ < i_; });
      if (turns_.next_ != i_) return false;
      if (!step()) return false;
      ++turns_.next_;
      taken_ = true;
      lock.unlock();
      turns_.changed_.notify_all();
      return true;
    }

   private:
    OrderedSection& turns_;
    std::size_t i_;
    bool taken_ = false;
  };

 private:
  void give_up(std::size_t i) {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = std::min(given_up_, i);
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::size_t given_up_ = ~std::size_t{0};  // the first turn that no task will take
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_ORDERED_SECTION_H_
