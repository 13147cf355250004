#include "http/block_cache.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "files/os/out_of_memory.h"

namespace espalier::http {
namespace {

// Reads that leave out no more than this still follow each other.
constexpr std::uint64_t kMaxGap = std::uint64_t{16} << 10;
// The block of the first read that follows another; it doubles with each.
constexpr std::uint64_t kFirstBlock = std::uint64_t{128} << 10;
// Announced blocks take little memory each, but a file chooses how many there are.
constexpr std::size_t kMaxBlocks = 4096;
// How long a thread waits for another before it asks whether it still should.
constexpr std::chrono::milliseconds kWait{200};

}  // namespace

struct BlockCache::Block {
  enum class State : std::uint8_t { kPlanned, kFetching, kReady, kFailed };

  ByteRange range;
  State state = State::kPlanned;
  std::vector<std::byte> bytes;
  Error error;            // of kFailed
  std::uint64_t age = 0;  // grows with each use
};

void BlockCache::plan(ByteRange range) {
  range.begin = std::max(range.begin, begin_);
  range.end = std::min(range.end, end_);
  const Lock lock(mutex_);
  make_room();
  while (range.begin < range.end && blocks_.size() <= kMaxBlocks) {
    if (const auto block = find(range.begin)) {
      range.begin = block->range.end;
      continue;
    }
    const auto block = std::make_shared<Block>();
    block->range = {range.begin,
                    std::min({range.end, gap_end(range.begin), range.begin + kMaxBlock})};
    blocks_.emplace(range.begin, block);
    range.begin = block->range.end;
  }
}

void BlockCache::expect_sequence(bool is_expected) {
  const Lock lock(mutex_);
  is_sequence_expected_ = is_expected;
}

Result<void> BlockCache::read(std::uint64_t offset, MutableByteSpan out) {
  Lock lock(mutex_);
  while (!out.empty()) {
    auto block = find(offset);
    if (block == nullptr) {
      const std::uint64_t gap = gap_end(offset) - offset;
      const std::uint64_t wanted = std::min<std::uint64_t>(out.size(), gap);
      const std::uint64_t length = std::min(block_bytes(offset, wanted), gap);
      if (length > kMaxBlock) {
        const MutableByteSpan part = out.first(static_cast<std::size_t>(wanted));
        if (auto ok = read_large(offset, part, lock); !ok) return ok;
        offset += wanted;
        out = out.subspan(part.size());
        continue;
      }
      block = std::make_shared<Block>();
      block->range = {offset, offset + length};
      blocks_.emplace(offset, block);
    }
    if (auto ok = fetch_block(block, lock); !ok) return ok;
    // Whoever fetched it was cancelled, and this thread was not.
    if (block->state == Block::State::kFailed) continue;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), block->range.end - offset));
    std::copy_n(block->bytes.begin() + static_cast<std::ptrdiff_t>(offset - block->range.begin),
                count, out.begin());
    block->age = ++age_;
    offset += count;
    out = out.subspan(count);
  }
  return {};
}

// The block with that byte, or null.
std::shared_ptr<BlockCache::Block> BlockCache::find(std::uint64_t offset) const {
  auto after = blocks_.upper_bound(offset);
  if (after == blocks_.begin()) return nullptr;
  const auto& block = std::prev(after)->second;
  return offset < block->range.end ? block : nullptr;
}

// Where the next block begins, or the end.
std::uint64_t BlockCache::gap_end(std::uint64_t offset) const {
  const auto after = blocks_.upper_bound(offset);
  return after == blocks_.end() ? end_ : after->first;
}

// How much to fetch for a read of `wanted` bytes in no block.
std::uint64_t BlockCache::block_bytes(std::uint64_t offset, std::uint64_t wanted) {
  auto stream = std::find_if(streams_.begin(), streams_.end(), [&](const Stream& each) {
    return each.next > 0 && offset >= each.next && offset - each.next <= kMaxGap;
  });
  if (stream == streams_.end()) {
    stream = streams_.begin() + static_cast<std::ptrdiff_t>(next_stream_++ % streams_.size());
    stream->length = 0;
  } else {
    stream->length = std::min(stream->length + 1, 8u);
  }
  std::uint64_t bytes = 0;
  if (stream->length > 0) bytes = std::min(kMaxBlock, kFirstBlock << (stream->length - 1));
  if (is_sequence_expected_) bytes = kMaxBlock;
  bytes = std::max(bytes, wanted);
  stream->next = offset + bytes;
  return bytes;
}

// Makes the block ready, or failed if another thread was cancelled while it fetched it. While the
// lock is released, other threads may do so, or drop it.
Result<void> BlockCache::fetch_block(const std::shared_ptr<Block>& block, Lock& lock) {
  while (block->state == Block::State::kFetching) {
    if (file_.is_cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    has_changed_.wait_for(lock, kWait);
  }
  if (block->state == Block::State::kFailed) {
    if (block->error.code == ErrorCode::kCancelled) return {};
    return tl::unexpected<Error>(block->error);
  }
  if (block->state == Block::State::kReady) return {};
  block->state = Block::State::kFetching;
  auto bytes = fetch_unlocked(block->range, lock);
  if (bytes) {
    block->bytes = std::move(*bytes);
    block->state = Block::State::kReady;
    block->age = ++age_;
    kept_ += block->range.length();
    make_room();
  } else {
    block->error = bytes.error();
    block->state = Block::State::kFailed;
    // A later read tries again.
    drop(*block);
  }
  has_changed_.notify_all();
  return bytes ? Result<void>() : propagate(bytes);
}

// A thread that waits for a block must hear of every outcome, so nothing may be thrown.
Result<std::vector<std::byte>> BlockCache::fetch_unlocked(const ByteRange& range, Lock& lock) {
  lock.unlock();
  auto bytes = [&]() -> Result<std::vector<std::byte>> {
    try {
      return file_.fetch(range);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }();
  lock.lock();
  return bytes;
}

Result<void> BlockCache::read_large(std::uint64_t offset, MutableByteSpan out, Lock& lock) {
  auto bytes = fetch_unlocked({offset, offset + out.size()}, lock);
  if (!bytes) return propagate(bytes);
  std::copy(bytes->begin(), bytes->end(), out.begin());
  return {};
}

// Removes the block from the table, if it is still there. Threads that hold it may go on.
void BlockCache::drop(const Block& block) {
  const auto found = blocks_.find(block.range.begin);
  if (found == blocks_.end() || found->second.get() != &block) return;
  if (block.state == Block::State::kReady) kept_ -= block.range.length();
  blocks_.erase(found);
}

// Drops the block that was not used for the longest time. False if there is none to drop.
bool BlockCache::drop_oldest() {
  const Block* oldest = nullptr;
  for (const auto& [begin, block] : blocks_) {
    if (block->state != Block::State::kReady) continue;
    if (oldest == nullptr || block->age < oldest->age) oldest = block.get();
  }
  if (oldest == nullptr) return false;
  drop(*oldest);
  return true;
}

void BlockCache::make_room() {
  while ((kept_ > kMaxKept || blocks_.size() > kMaxBlocks) && drop_oldest()) {
  }
}

}  // namespace espalier::http
