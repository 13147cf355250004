#include "files/os/huge_pages.h"

#include <memory>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSeveralPages = std::size_t{64} << 10;

[[maybe_unused]] std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// Calls madvise() for the pages of `page` bytes that lie wholly within the memory. Never fails.
[[maybe_unused]] void advise_within(void* memory, std::size_t size, std::size_t page, int advice) {
  if (std::align(page, page, memory, size) == nullptr) return;
  ::madvise(memory, size / page * page, advice);
}

// Allocates from the heap with the default alignment, so the heap can reuse freed memory, which
// costs no new pages. Null without memory.
void* allocate(std::size_t size) {
  void* memory = ::operator new(size, std::nothrow);
#ifdef MADV_HUGEPAGE
  if (memory != nullptr) advise_within(memory, size, kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

// Populates all pages in one call instead of one fault for each.
void populate([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) {
#ifdef MADV_POPULATE_WRITE
  if (memory != nullptr && size >= kSeveralPages) {
    advise_within(memory, size, page_bytes(), MADV_POPULATE_WRITE);
  }
#endif
}

void* allocate_populated(std::size_t size) {
  void* memory = allocate(size);
  populate(memory, size);
  return memory;
}

void release(void* memory, std::size_t) { ::operator delete(memory); }

}  // namespace

ArenaAllocator huge_page_allocator() { return {allocate_populated, release}; }

std::shared_ptr<std::byte[]> large_memory(std::uint64_t size) {
  const auto narrow = narrow_size(size);
  void* memory = narrow ? allocate(*narrow) : nullptr;
  if (memory == nullptr) return nullptr;
  // Larger blocks are filled by several threads, and each thread should fault in its own pages.
  if (*narrow < kHugePage) populate(memory, *narrow);
  return {static_cast<std::byte*>(memory), [](std::byte* bytes) { ::operator delete(bytes); }};
}

}  // namespace espalier
