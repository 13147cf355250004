// Decides which bytes a request asks for, and keeps those that come before they are used.
#ifndef ESPALIER_HTTP_BLOCK_CACHE_H_
#define ESPALIER_HTTP_BLOCK_CACHE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "http/byte_range.h"

namespace espalier::http {

/// Reads ranges of a file in few requests. A request takes milliseconds however short it is, so
/// neighbouring ranges are fetched together:
///
/// - those that plan() announced together, as one block;
/// - for reads that follow each other, larger and larger blocks, up to kMaxBlock. Single reads
///   fetch exactly what they ask for.
///
/// Blocks are kept, because commands read some chunks more than once, until kMaxKept bytes or many
/// small blocks were used since. Thread-safe: two reads never fetch the same block at once; one
/// waits for the other.
class BlockCache {
 public:
  static constexpr std::uint64_t kMaxBlock = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kMaxKept = std::uint64_t{32} << 20;

  /// Where the bytes come from. Called from the threads that read.
  struct File {
    /// Returns exactly the bytes of a range. Called without a lock.
    std::function<Result<std::vector<std::byte>>(const ByteRange&)> fetch;
    /// Whether what the calling thread reads for was given up. Polled a few times a second, while
    /// it waits for another thread's fetch.
    std::function<bool()> is_cancelled;
  };

  /// For the bytes from `begin` to `end` of a file.
  BlockCache(std::uint64_t begin, std::uint64_t end, File file)
      : begin_(begin), end_(end), file_(std::move(file)) {}

  /// Announces that all of `range` will be read. Fetches nothing yet. A hint: the part outside of
  /// the file, or what was announced before, is left out.
  void plan(ByteRange range);

  /// Whether long sequential reads come; the first of them then fetches a large block.
  void expect_sequence(bool is_expected);

  /// Copies the bytes that begin at `offset` to `out`. They must lie between the cache's begin and
  /// end. Errors are those of the fetch, and kCancelled.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableByteSpan out);

 private:
  struct Block;
  using Blocks = std::map<std::uint64_t, std::shared_ptr<Block>>;
  using Lock = std::unique_lock<std::mutex>;
  /// Reads that follow each other. There are several, because each thread may read another tensor.
  struct Stream {
    std::uint64_t next = 0;
    unsigned length = 0;
  };

  std::shared_ptr<Block> find(std::uint64_t offset) const;
  std::uint64_t gap_end(std::uint64_t offset) const;
  std::uint64_t block_bytes(std::uint64_t offset, std::uint64_t wanted);
  Result<void> fetch_block(const std::shared_ptr<Block>& block, Lock& lock);
  Result<std::vector<std::byte>> fetch_unlocked(const ByteRange& range, Lock& lock);
  Result<void> read_large(std::uint64_t offset, MutableByteSpan out, Lock& lock);
  void drop(const Block& block);
  bool drop_oldest();
  void make_room();

  const std::uint64_t begin_;
  const std::uint64_t end_;
  const File file_;
  std::mutex mutex_;
  std::condition_variable has_changed_;
  Blocks blocks_;  // by their begin; they do not overlap
  std::uint64_t kept_ = 0;
  std::uint64_t age_ = 0;
  bool is_sequence_expected_ = false;
  std::array<Stream, 8> streams_{};
  std::size_t next_stream_ = 0;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_BLOCK_CACHE_H_
