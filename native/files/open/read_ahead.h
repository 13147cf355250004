// Prefetches a file's bytes a little before they are used.
#ifndef ESPALIER_FILES_OPEN_READ_AHEAD_H_
#define ESPALIER_FILES_OPEN_READ_AHEAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/source.h"

namespace espalier {

/// Prefetches extents in the order in which they will be used, some MiB ahead. The kernel's own
/// read-ahead reads the bytes around each request, which for a partial read costs several times its
/// size. For long stretches of bytes that overhead is small, and the kernel's larger reads are
/// used. Call add() and start() first, from one thread; use() is thread-safe. `source` must outlive
/// this object.
class ReadAhead {
 public:
  explicit ReadAhead(const Source& source) : source_(source) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// The next extent in order.
  void add(const Extent& extent);
  /// And then those of the bases of a patch there.
  void add(const Extent& extent, std::span<const ChunkRecord> bases) {
    add(extent);
    for (const ChunkRecord& base : bases) add({base.file, base.offset, base.stored});
  }

  /// Prefetches the first extents.
  void start();

  /// Tells that this many of the added bytes are about to be used, so prefetching advances.
  void use(std::uint64_t bytes);

 private:
  struct Run {
    Extent extent;             // extents close to each other are fetched as one
    std::uint64_t before = 0;  // bytes added before this run
  };

  const Source& source_;
  std::vector<Run> runs_;
  std::vector<Extent> stretches_;  // of extents close to each other
  std::uint64_t added_ = 0;
  bool is_sequential_ = false;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::size_t> next_{0};
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_READ_AHEAD_H_
