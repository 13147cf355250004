#include <algorithm>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/sink.h"
#include "files/os/out_of_memory.h"

namespace espalier {

// Threads copy at the same time, each to its own range; only growing moves the bytes.
struct MemorySink::Memory {
  std::shared_mutex mutex;
  std::vector<std::byte> bytes;
  bool is_complete = false;
};

MemorySink::MemorySink() : memory_(std::make_unique<Memory>()) {}
MemorySink::~MemorySink() = default;

Result<void> MemorySink::reserve(std::uint64_t length) try {
  const auto narrow = narrow_size(length);
  if (!narrow) return out_of_memory();
  memory_->bytes.resize(*narrow);
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
} catch (const std::length_error&) {
  return out_of_memory();
}

Result<void> MemorySink::write(std::uint64_t offset, ByteSpan bytes) try {
  const auto begin = narrow_size(offset);
  if (!begin || bytes.size() > ~std::size_t{0} - *begin) return out_of_memory();
  const std::size_t end = *begin + bytes.size();
  const auto copy = [&] {
    std::copy(bytes.begin(), bytes.end(),
              memory_->bytes.begin() + static_cast<std::ptrdiff_t>(*begin));
  };
  {
    const std::shared_lock lock(memory_->mutex);
    if (end <= memory_->bytes.size()) {
      copy();
      return {};
    }
  }
  const std::unique_lock lock(memory_->mutex);
  std::vector<std::byte>& all = memory_->bytes;
  if (end > all.capacity()) all.reserve(std::max(end, all.capacity() + all.capacity() / 2));
  if (end > all.size()) all.resize(end);
  copy();
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
} catch (const std::length_error&) {
  return out_of_memory();
}

Result<void> MemorySink::commit() {
  memory_->is_complete = true;
  return {};
}

std::vector<std::byte> MemorySink::take() {
  if (!std::exchange(memory_->is_complete, false)) return {};
  return std::exchange(memory_->bytes, {});
}

}  // namespace espalier
