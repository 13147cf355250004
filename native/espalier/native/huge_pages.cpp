#include "espalier/native/huge_pages.h"

#include <new>

#include <sys/mman.h>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::align_val_t kSmallAlignment{64};

// Huge pages begin at multiples of their size.
std::size_t rounded(std::size_t size) { return (size + kHugePage - 1) / kHugePage * kHugePage; }

void* allocate(std::size_t size) {
  if (size < kHugePage) return ::operator new(size, kSmallAlignment, std::nothrow);
  if (size > static_cast<std::size_t>(-1) / 2) return nullptr;
  void* memory = ::operator new (rounded(size), std::align_val_t{kHugePage}, std::nothrow);
#ifdef MADV_HUGEPAGE
  if (memory != nullptr) ::madvise(memory, rounded(size), MADV_HUGEPAGE);
#endif
  return memory;
}

void release(void* memory, std::size_t size) {
  if (size < kHugePage) {
    ::operator delete(memory, kSmallAlignment);
  } else {
    ::operator delete (memory, std::align_val_t{kHugePage});
  }
}

}  // namespace

ArenaAllocator huge_page_allocator() { return {allocate, release}; }

std::shared_ptr<std::byte[]> large_memory(std::uint64_t size) {
  const auto narrow = narrow_size(size);
  if (!narrow) return nullptr;
  // Aligned as the heap likes best: so it finds what has been freed again.
  std::shared_ptr<std::byte[]> memory(new (std::nothrow) std::byte[*narrow]);
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.get());
  const std::uintptr_t first = rounded(begin);
  const std::uintptr_t last = (begin + *narrow) / kHugePage * kHugePage;
  if (memory && first < last)
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace espalier
