// Keeps the disk a little ahead of those who use a file's bytes.
#ifndef ESPALIER_NATIVE_READ_AHEAD_H_
#define ESPALIER_NATIVE_READ_AHEAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/base/extent.h"
#include "espalier/native/source.h"

namespace espalier {

/// Prefetches extents in the order in which they will be used, some MiB ahead. What the system
/// does on its own is to read whatever stands around the bytes that are asked for, which costs a
/// part of a file several times its size. Where that is little beside a long stretch of bytes, it
/// is left to the system, whose pieces are larger. add() and start() come first, from one thread;
/// use() is thread-safe. `source` must outlive it.
class ReadAhead {
 public:
  explicit ReadAhead(const Source& source) : source_(source) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// The next extent in order.
  void add(const Extent& extent);

  /// Prefetches the first ones.
  void start();

  /// Says that so many of the bytes added are about to be used: others may follow them.
  void use(std::uint64_t bytes);

 private:
  struct Run {
    Extent extent;             // extents that follow each other closely are fetched as one
    std::uint64_t before = 0;  // bytes added before this run
  };

  const Source& source_;
  std::vector<Run> runs_;
  std::uint64_t added_ = 0;
  std::uint64_t stretches_ = 0;  // of extents that follow each other closely
  bool is_sequential_ = false;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::size_t> next_{0};
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_READ_AHEAD_H_
