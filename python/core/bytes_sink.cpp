#include "bytes_sink.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "errors.h"
#include "interruptible.h"

#include "espalier/base/checked.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

// Bytes that are copied before Ctrl-C is looked for again.
constexpr std::size_t kStep = std::size_t{1} << 20;
// So few that a thread is not worth it.
constexpr std::size_t kAtOnce = 16 * kStep;

tl::unexpected<Error> no_room() { return fail(ErrorCode::kOutOfMemory, "out of memory"); }

}  // namespace

Result<void> BytesSink::reserve(std::uint64_t length) {
  const auto size = narrow_size(length);
  if (!size) return no_room();
  return grow(*size);
}

Result<void> BytesSink::write(std::uint64_t offset, ByteSpan bytes) {
  const auto begin = narrow_size(offset);
  if (!begin || bytes.size() > ~std::size_t{0} - *begin) return no_room();
  const std::size_t end = *begin + bytes.size();
  {
    const std::shared_lock lock(mutex_);
    if (end <= size_) {
      std::copy(bytes.begin(), bytes.end(), memory_.get() + *begin);
      return {};
    }
  }
  const std::unique_lock lock(mutex_);
  if (end > size_) {
    if (auto ok = grow(end); !ok) return ok;
  }
  std::copy(bytes.begin(), bytes.end(), memory_.get() + *begin);
  return {};
}

Result<void> BytesSink::grow(std::size_t size) {
  if (size > capacity_) {
    const std::size_t capacity = std::max(size, capacity_ + capacity_ / 2);
    // New memory of calloc() takes no time until it is used.
    auto* const memory = static_cast<std::byte*>(
        memory_ == nullptr ? std::calloc(capacity, 1) : std::realloc(memory_.get(), capacity));
    if (memory == nullptr) return no_room();
    if (std::byte* const before = memory_.release(); before != nullptr) {
      std::memset(memory + capacity_, 0, capacity - capacity_);
    }
    memory_.reset(memory);
    capacity_ = capacity;
  }
  size_ = size;
  return {};
}

nb::bytes BytesSink::take() {
  nb::object made = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size_)));
  if (!made.is_valid()) throw nb::python_error();
  char* const to = PyBytes_AsString(made.ptr());
  if (size_ <= kAtOnce) {
    if (size_ != 0) std::memcpy(to, memory_.get(), size_);
    return nb::borrow<nb::bytes>(made);
  }
  const auto copy = [&](const Progress&, const std::atomic<bool>& cancel) -> Result<void> {
    for (std::size_t begin = 0; begin < size_; begin += kStep) {
      if (cancel) return fail(ErrorCode::kCancelled, "the save was cancelled");
      std::memcpy(to + begin, memory_.get() + begin, std::min(kStep, size_ - begin));
    }
    return {};
  };
  must(run_interruptibly(nb::none(), copy));
  return nb::borrow<nb::bytes>(made);
}

}  // namespace espalier::python
