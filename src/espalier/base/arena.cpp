#include "espalier/base/arena.h"

#include <new>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"

namespace espalier {
namespace {

void* allocate_from_heap(std::size_t size) { return ::operator new(size, std::nothrow); }

void release_to_heap(void* memory, std::size_t) { ::operator delete(memory); }

}  // namespace

Result<Arena> Arena::allocate(std::uint64_t size, ArenaAllocator allocator) {
  if (allocator.allocate == nullptr) allocator = {allocate_from_heap, release_to_heap};
  const auto narrow = narrow_size(size);
  // Never ask for zero bytes: allocators differ in what they return.
  const std::size_t reserved = narrow && *narrow > 0 ? *narrow : 1;
  void* memory = narrow ? allocator.allocate(reserved) : nullptr;
  if (memory == nullptr) {
    return fail(ErrorCode::kOutOfMemory,
                "cannot allocate " + counted(size, "byte") +
                    " for the index; free memory or lower Limits::index_bytes to refuse "
                    "such files");
  }
  return Arena(static_cast<std::byte*>(memory), *narrow, {allocator, reserved});
}

}  // namespace espalier
