// One aligned block of memory that metadata is copied into before it is checked.
//
// A mapped file can change under the reader; a copy cannot. So metadata is copied here first and
// checked here, and all views of names and shapes point here.
#ifndef ESPALIER_BASE_ARENA_H_
#define ESPALIER_BASE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// The allocator of an Arena. The default is the C++ heap; native builds pass huge pages, which
/// make opening a large index several times cheaper. Must be thread-safe.
struct ArenaAllocator {
  /// Returns `size` uninitialised bytes, aligned like operator new, or nullptr.
  void* (*allocate)(std::size_t size) = nullptr;
  /// Frees memory that `allocate` returned for the same size.
  void (*release)(void* memory, std::size_t size) = nullptr;
};

/// An owned block of bytes, aligned like operator new. Movable, not copyable.
class Arena {
 public:
  /// A block of `size` uninitialised bytes; kOutOfMemory if the allocation fails.
  [[nodiscard]] static Result<Arena> allocate(std::uint64_t size, ArenaAllocator allocator = {});

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
