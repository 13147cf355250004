// Memory for large indexes and tensors: page faults on fresh memory cost more than the work done in
// it.
#ifndef ESPALIER_FILES_OS_HUGE_PAGES_H_
#define ESPALIER_FILES_OS_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/base/arena.h"

namespace espalier {

/// An allocator that asks for huge pages when a block is large, and populates all pages at once.
ArenaAllocator huge_page_allocator();

/// `size` uninitialised bytes for a tensor, in huge pages where a whole one fits. Null without
/// memory. Thread-safe.
std::shared_ptr<std::byte[]> large_memory(std::uint64_t size);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_HUGE_PAGES_H_
