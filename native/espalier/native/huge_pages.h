// Memory for large indexes and tensors: filling fresh memory page by page costs more than what is
// done with it.
#ifndef ESPALIER_NATIVE_HUGE_PAGES_H_
#define ESPALIER_NATIVE_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/base/arena.h"

namespace espalier {

/// An allocator that asks the system for huge pages when a block is large, and for all pages at
/// once.
ArenaAllocator huge_page_allocator();

/// `size` bytes for a tensor, uninitialised, in huge pages as far as they get full. Null if the
/// system does not have them. Thread-safe.
std::shared_ptr<std::byte[]> large_memory(std::uint64_t size);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_HUGE_PAGES_H_
