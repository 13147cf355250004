// A pool of objects that are costly to make; each is lent to one thread at a time.
#ifndef ESPALIER_FILES_OS_POOL_H_
#define ESPALIER_FILES_OS_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace espalier {

/// The number of this thread, from 0 on in the order in which threads asked for theirs.
inline std::size_t thread_number() noexcept {
  static std::atomic<std::size_t> count = 0;
  thread_local const std::size_t number = count.fetch_add(1, std::memory_order_relaxed);
  return number;
}

/// Lends objects of type T and makes a new one if none is free. A thread mostly gets the object
/// that it gave back, without a lock: millions of small tensors are each read with one. So the pool
/// may hold an object for each thread that borrowed. Thread-safe. Must outlive all lent objects.
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
  ~Pool() {
    for (Slot& slot : slots_) delete slot.object.load(std::memory_order_relaxed);
  }

  Borrowed borrow() {
    // Its own first. Those of other threads count as well, which may be gone: an object may be a
    // connection that is to be used again.
    const std::size_t own = own_slot();
    for (std::size_t i = 0; i < kSlots; ++i) {
      std::atomic<T*>& slot = slots_[(own + i) % kSlots].object;
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (T* object = slot.exchange(nullptr, std::memory_order_acquire)) {
        return Borrowed(object, GiveBack{this});
      }
    }
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
  static constexpr std::size_t kSlots = 16;
  // Each in a cache line of its own.
  struct alignas(64) Slot {
    std::atomic<T*> object = nullptr;
  };

  static std::size_t own_slot() noexcept { return thread_number() % kSlots; }

  void take_back(std::unique_ptr<T> object) noexcept {
    T* none = nullptr;
    if (slots_[own_slot()].object.compare_exchange_strong(
            none, object.get(), std::memory_order_release, std::memory_order_relaxed)) {
      static_cast<void>(object.release());
      return;
    }
    try {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(object));
    } catch (...) {  // Without memory for the list, destroy the object.
    }
  }

  const std::function<std::unique_ptr<T>()> make_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_POOL_H_
