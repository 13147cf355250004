// A pool of objects that are costly to make; each is lent to one thread at a time.
#ifndef ESPALIER_FILES_OS_POOL_H_
#define ESPALIER_FILES_OS_POOL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace espalier {

/// Lends objects of type T and makes a new one if none is free, so it holds at most as many as are
/// lent at the same time. Thread-safe. Must outlive all lent objects.
template <class T>
class Pool {
 public:
  struct GiveBack {
    Pool* pool;
    void operator()(T* object) const noexcept { pool->take_back(std::unique_ptr<T>(object)); }
  };
  /// A borrowed object; the destructor returns it.
  using Borrowed = std::unique_ptr<T, GiveBack>;

  /// `make` is called from the threads that borrow, without a lock.
  explicit Pool(std::function<std::unique_ptr<T>()> make = std::make_unique<T>)
      : make_(std::move(make)) {}

  Borrowed borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<T> object = std::move(free_.back());
        free_.pop_back();
        return Borrowed(object.release(), GiveBack{this});
      }
    }
    return Borrowed(make_().release(), GiveBack{this});
  }

 private:
  void take_back(std::unique_ptr<T> object) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(object));
    } catch (...) {  // Without memory for the list, destroy the object.
    }
  }

  const std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_POOL_H_
