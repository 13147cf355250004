// The end of what a stream has made so far.
#ifndef ESPALIER_FILES_OPEN_KEPT_END_H_
#define ESPALIER_FILES_OPEN_KEPT_END_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "espalier/bytes.h"

namespace espalier {

/// Keeps the last bytes of a stream for threads that read its chunks in almost their order. Before
/// them it keeps blocks that were not read yet, up to 32 MiB, because a thread may come late. Not
/// thread-safe.
class KeptEnd {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

  /// Keeps the last `bytes`.
  explicit KeptEnd(std::uint64_t bytes) : last_(bytes) {}

  /// The bytes that the stream has made.
  std::uint64_t end() const { return end_; }
  /// The memory that is taken.
  std::uint64_t memory() const { return kept_ * kBlockBytes; }

  /// Where the next bytes go; then tell how many these are. Gives up blocks, but none from offset
  /// `needed` on.
  MutableByteSpan room(std::uint64_t needed);
  void add(std::size_t bytes) { end_ += bytes; }

  /// Whether all of `extent` is kept.
  bool has(const Extent& extent) const;
  /// Copies bytes that are kept to `out`, and notes that they were read.
  void copy(std::uint64_t offset, MutableByteSpan out);

  /// Gives up what was read.
  void give_up_read();
  /// Gives up everything: the stream begins anew.
  void clear();

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;  // null if it was given up
    std::uint64_t read = 0;
  };

  static bool was_read(const Block& block) { return block.read >= kBlockBytes; }
  void give_up(Block& block);
  void drop_front();

  std::uint64_t last_;
  std::deque<Block> blocks_;
  std::unique_ptr<std::byte[]> spare_;
  std::uint64_t first_ = 0;  // offset of the first block
  std::uint64_t end_ = 0;
  std::uint64_t kept_ = 0;  // blocks with memory
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_KEPT_END_H_
