#include "espalier/native/huge_pages.h"

#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSeveralPages = std::size_t{64} << 10;
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

[[maybe_unused]] std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Advises on those pages of `page` bytes that lie wholly within the memory. Never fails.
[[maybe_unused]] void advise_within(std::byte* memory, std::size_t size, std::size_t page,
                                    int advice) {
  void* begin = memory;
  if (std::align(page, page, begin, size) == nullptr) return;
  ::madvise(begin, size / page * page, advice);
}

}  // namespace

ArenaAllocator huge_page_allocator() { return {allocate, release}; }

std::shared_ptr<std::byte[]> large_memory(std::uint64_t size) {
  const auto narrow = narrow_size(size);
  if (!narrow) return nullptr;
  // Aligned as the heap likes best: so it finds what has been freed again.
  std::shared_ptr<std::byte[]> memory(new (std::nothrow) std::byte[*narrow]);
  if (!memory) return nullptr;
#ifdef MADV_HUGEPAGE
  advise_within(memory.get(), *narrow, kHugePage, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_WRITE
  // Pages in one call instead of a fault for each. Threads that fill more take turns better.
  if (*narrow >= kSeveralPages && *narrow < kHugePage) {
    advise_within(memory.get(), *narrow, page_bytes(), MADV_POPULATE_WRITE);
  }
#endif
  return memory;
}

}  // namespace espalier
