// What work may take: limits for untrusted files, threads, and memory; and how far it is.
//
//   Threads threads(4, my_run);       // a function that has my pool work: see Threads::Run
//   auto file = CheckpointFile::open(
//       path, {.threads = threads, .memory = memory_of(&pmr_resource)});
#ifndef ESPALIER_LIMITS_H_
#define ESPALIER_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace espalier {

/// Upper bounds that a reader enforces before it allocates or loops. The defaults accept any
/// checkpoint of a million tensors; raise them for a file that you trust, lower them on a server.
struct Limits {
  /// Bytes of index that are copied into memory. Stops a header that claims a huge index from
  /// making the reader allocate it. At most 2^31 - 1, the largest FlatBuffer.
  std::uint64_t index_bytes = 1u << 30;
  /// Nodes in the tree. Stops work that grows with a count in the file.
  std::uint64_t nodes = 1u << 26;
  /// Containers inside containers. Stops stack exhaustion in code that recurses over the tree.
  std::uint32_t depth = 256;
  /// Bytes of all keys on the path to one node. Stops a listing whose every line repeats megabytes.
  std::uint32_t path_bytes = 16384;
  /// Bytes of keys, strings, labels and names, counted once for each use. Stops a small file in
  /// which a million nodes use one long text: copies for all of them would take terabytes.
  std::uint64_t text_bytes = std::uint64_t{1} << 30;
  /// Axes of one tensor; the format itself allows 64.
  std::uint32_t rank = 64;
  /// Bytes of one arbitrary-precision integer. Stops quadratic decimal conversion.
  std::uint32_t bigint_bytes = 1024;
  /// Files beside the opened one that a checkpoint of any format has bytes in; at most 65,534.
  /// Stops a file of 100 bytes that has 65,534 others opened or fetched.
  std::uint32_t files = 1024;
  /// Bytes that one read may allocate here, and all tensors of a file of another format that repeat
  /// its bytes (see docs/threat-model.md). Stops a shape that claims petabytes.
  std::uint64_t decoded_bytes = std::uint64_t{1} << 40;
  /// Bytes that all made files of one checkpoint may take (files that are made when first read, for
  /// example by inflating). Stops an archive of zeros that grows a thousandfold.
  std::uint64_t made_bytes = std::uint64_t{1} << 34;
  /// Bytes of a pickle, as PyTorch files hold one. Enough for two million tensors.
  std::uint64_t pickle_bytes = 256u << 20;
  /// Bytes of the header of another format, such as the JSON of safetensors. The safetensors
  /// specification caps it at 100 MB.
  std::uint64_t foreign_header_bytes = 100'000'000;
  /// Bytes of the directory of a zip archive, such as a PyTorch or .npz file. A million entries
  /// take about 60 MiB.
  std::uint64_t zip_directory_bytes = std::uint64_t{64} << 20;
  /// Bytes of the header of one GGUF file, whose length stands nowhere: vocabulary included, real
  /// ones have up to 16 MiB.
  std::uint64_t gguf_header_bytes = std::uint64_t{128} << 20;
};

/// Threads for work that is done in parallel.
struct Threads {
  /// Calls `work` up to `count` times, from any threads, at once or one after the other, and
  /// returns when all these calls have returned. Each call does all that is left to do; what none
  /// did is done by the thread that called Run. So it may call `work` less often, if it has no
  /// threads to spare. `work` does not throw; exceptions of Run itself propagate.
  using Run = std::function<void(unsigned count, const std::function<void()>& work)>;

  /// So many at most, with the one that calls; 0 means one for each CPU.
  unsigned count = 0;
  /// Runs the work, in place of threads that the library starts for it: on a pool of your program.
  /// What such work calls in turn never calls a Run, so that a pool does not wait for itself.
  /// Called from the thread that calls the library, and of a save in the background from its own
  /// thread. Thread-safe, if several calls of the library use it at once.
  Run run = {};

  Threads() = default;
  Threads(unsigned most, Run executor = {}) : count(most), run(std::move(executor)) {}
};

/// Gives `bytes` bytes for a tensor, at a multiple of `alignment`, which stay valid as long as a
/// copy of the pointer lives. Null, or std::bad_alloc, is kOutOfMemory. Called from several
/// threads.
using TensorMemory = std::function<std::shared_ptr<void>(std::size_t bytes, std::size_t alignment)>;

/// A class that allocates as std::pmr::memory_resource does.
template <class Resource>
concept MemoryResource = requires(Resource& resource, void* memory, std::size_t number) {
  memory = resource.allocate(number, number);
  resource.deallocate(memory, number, number);
};

/// Memory of a std::pmr::memory_resource. It must outlive every tensor that was read into it, and
/// allow use from several threads at once.
template <MemoryResource Resource>
TensorMemory memory_of(Resource* resource) {
  return [resource](std::size_t bytes, std::size_t alignment) {
    void* memory = resource->allocate(bytes, alignment);
    return std::shared_ptr<void>(memory, [=](void* unused) {
      if (unused != nullptr) resource->deallocate(unused, bytes, alignment);
    });
  };
}

/// Reports progress: bytes done and bytes in total. Called from one thread at a time, but not
/// always the same one. Must not throw.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace espalier

#endif  // ESPALIER_LIMITS_H_
