#include "files/os/snapshot_memory.h"

#include <limits>
#include <mutex>
#include <utility>

#include <sys/mman.h>

namespace espalier {
namespace {

// Sizes are multiples of it, so that snapshots of about the same size share a block.
constexpr std::size_t kStep = std::size_t{1} << 20;

class Block {
 public:
  Block() = default;
  // Without huge pages: where memory is fragmented, the system takes several seconds per GiB to
  // make them, and the program waits.
  explicit Block(std::size_t size) {
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    bytes_ = static_cast<std::byte*>(memory);
    size_ = size;
  }
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block() {
    if (bytes_ != nullptr) ::munmap(bytes_, size_);
  }

  void set_reused() { is_reused_ = true; }
  bool is_reused() const { return is_reused_; }
  std::byte* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

  // Lets the system take the pages. Without MADV_FREE the block is of no use any more.
  void give_up_pages() {
#ifdef MADV_FREE
    if (bytes_ != nullptr && ::madvise(bytes_, size_, MADV_FREE) == 0) return;
#endif
    *this = Block();
  }

 private:
  void swap(Block& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(is_reused_, other.is_reused_);
  }

  std::byte* bytes_ = nullptr;
  std::size_t size_ = 0;
  bool is_reused_ = false;
};

// The block that waits for the next snapshot.
class Spare {
 public:
  // An empty block if the spare one is too small, or much too large.
  Block take(std::size_t size) {
    Block taken;
    const std::lock_guard lock(mutex_);
    if (spare_.size() >= size && spare_.size() / 2 <= size) taken = std::move(spare_);
    taken.set_reused();
    return taken;
  }
  void put(Block block) {
    if (!block.is_reused()) block.give_up_pages();
    const std::lock_guard lock(mutex_);
    // A block that was not taken was too small or too large: keep the one of use.
    spare_ = std::move(block);
  }

 private:
  std::mutex mutex_;
  Block spare_;
};

// Never destroyed: snapshots may live while the program ends.
Spare& spare() {
  static auto* const only = new Spare();
  return *only;
}

}  // namespace

std::shared_ptr<std::byte[]> snapshot_memory(std::uint64_t size) {
  if (size > std::numeric_limits<std::size_t>::max() - kStep) return nullptr;
  const std::size_t rounded = (static_cast<std::size_t>(size) / kStep + 1) * kStep;
  Block block = spare().take(rounded);
  if (block.bytes() == nullptr) block = Block(rounded);
  if (block.bytes() == nullptr) return nullptr;
  auto owner = std::make_shared<Block>(std::move(block));
  // The last user of the bytes gives the block back.
  struct GiveBack {
    std::shared_ptr<Block> block;
    void operator()(std::byte*) const { spare().put(std::move(*block)); }
  };
  std::byte* const bytes = owner->bytes();
  return {bytes, GiveBack{std::move(owner)}};
}

}  // namespace espalier
