// One aligned block of memory that metadata is copied into before it is checked.
//
// A mapped file can change under the reader; a copy cannot. Everything that the reader believes is
// therefore copied here first, and checked here, and all views of names and shapes point in here.
#ifndef ESPALIER_BASE_ARENA_H_
#define ESPALIER_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"

namespace espalier {

/// Where an Arena's memory comes from. The default is the C++ heap; a native build can hand in huge
/// pages, which make opening a large index several times cheaper. Must be thread-safe.
struct ArenaAllocator {
  /// Returns `size` bytes aligned as operator new does, or nullptr. Their contents do not matter.
  void* (*allocate)(std::size_t size) = nullptr;
  /// Frees what `allocate` returned for the same size.
  void (*release)(void* memory, std::size_t size) = nullptr;
};

/// An owned block of bytes, aligned as operator new does. Movable, not copyable.
class Arena {
 public:
  /// A block of `size` bytes, uninitialised; kOutOfMemory if it cannot be had.
  static Result<Arena> allocate(std::uint64_t size, ArenaAllocator allocator = {});

  MutableByteSpan bytes() { return {memory_.get(), size_}; }
  ByteSpan bytes() const { return {memory_.get(), size_}; }

 private:
  struct Release {
    ArenaAllocator allocator;
    std::size_t size;
    void operator()(std::byte* memory) const { allocator.release(memory, size); }
  };

  Arena(std::byte* memory, std::size_t size, Release release)
      : memory_(memory, release), size_(size) {}

  std::unique_ptr<std::byte[], Release> memory_;
  std::size_t size_;
};

}  // namespace espalier

#endif  // ESPALIER_BASE_ARENA_H_
