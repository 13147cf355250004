#include "files/open/kept_end.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace espalier {
namespace {

constexpr std::uint64_t kMostWaiting = 32;  // blocks

}  // namespace

MutableByteSpan KeptEnd::room(std::uint64_t needed) {
  const std::uint64_t limit = std::min(needed, end_ - std::min(end_, last_));
  const auto old = static_cast<std::size_t>(limit - std::min(limit, first_)) / kBlockBytes;
  // From the last of the old ones to the first, so that those which wait longest go.
  std::uint64_t waiting = 0;
  for (std::size_t i = std::min(old, blocks_.size()); i-- > 0;) {
    Block& block = blocks_[i];
    if (block.bytes == nullptr) continue;
    if (was_read(block) || ++waiting > kMostWaiting) give_up(block);
  }
  drop_front();
  const auto used = static_cast<std::size_t>(end_ - first_);
  if (used == blocks_.size() * kBlockBytes) {
    blocks_.push_back(
        {spare_ ? std::move(spare_) : std::make_unique_for_overwrite<std::byte[]>(kBlockBytes)});
    ++kept_;
  }
  return MutableByteSpan(blocks_.back().bytes.get(), kBlockBytes).subspan(used % kBlockBytes);
}

void KeptEnd::give_up(Block& block) {
  spare_ = std::move(block.bytes);
  --kept_;
}

void KeptEnd::drop_front() {
  while (!blocks_.empty() && blocks_.front().bytes == nullptr) {
    blocks_.pop_front();
    first_ += kBlockBytes;
  }
}

void KeptEnd::give_up_read() {
  // The last block may have room left.
  for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) {
    if (blocks_[i].bytes != nullptr && was_read(blocks_[i])) give_up(blocks_[i]);
  }
  spare_.reset();
  drop_front();
}

bool KeptEnd::has(const Extent& extent) const {
  if (extent.length == 0) return true;
  if (extent.offset < first_ || extent.offset + extent.length > end_) return false;
  const auto begin = static_cast<std::size_t>(extent.offset - first_) / kBlockBytes;
  const auto last =
      static_cast<std::size_t>(extent.offset + extent.length - 1 - first_) / kBlockBytes;
  for (std::size_t i = begin; i <= last; ++i) {
    if (blocks_[i].bytes == nullptr) return false;
  }
  return true;
}

void KeptEnd::copy(std::uint64_t offset, MutableByteSpan out) {
  while (!out.empty()) {
    const auto at = static_cast<std::size_t>(offset - first_);
    Block& block = blocks_[at / kBlockBytes];
    const std::size_t length = std::min(out.size(), kBlockBytes - at % kBlockBytes);
    std::memcpy(out.data(), block.bytes.get() + at % kBlockBytes, length);
    block.read += length;
    out = out.subspan(length);
    offset += length;
  }
}

void KeptEnd::clear() {
  blocks_.clear();
  spare_.reset();
  kept_ = 0;
  first_ = end_ = 0;
}

}  // namespace espalier
