#include "files/open/read_ahead.h"

namespace espalier {
namespace {

// Enough to keep the disk busy while threads work.
constexpr std::uint64_t kAhead = std::uint64_t{8} << 20;
// Bytes fetched by one call, unless a single extent is longer.
constexpr std::uint64_t kRunBytes = std::uint64_t{1} << 20;
// Disks and caches work by pages: a smaller gap costs nothing.
constexpr std::uint64_t kGap = 4096;
// For a stretch of this many bytes, the kernel's extra read-ahead is negligible.
constexpr std::uint64_t kLongStretch = std::uint64_t{128} << 20;

}  // namespace

void ReadAhead::add(const Extent& extent) {
  if (extent.length == 0) return;
  bool follows = false;
  if (!runs_.empty()) {
    const Extent& last = runs_.back().extent;
    follows = extent.file == last.file && extent.offset >= last.offset + last.length &&
              extent.offset - (last.offset + last.length) < kGap;
  }
  if (follows) {
    Extent& stretch = stretches_.back();
    stretch.length = extent.offset + extent.length - stretch.offset;
  } else {
    stretches_.push_back(extent);
  }
  if (follows && extent.offset + extent.length - runs_.back().extent.offset <= kRunBytes) {
    Extent& last = runs_.back().extent;
    last.length = extent.offset + extent.length - last.offset;
  } else {
    runs_.push_back({extent, added_});
  }
  added_ += extent.length;
}

ReadAhead::~ReadAhead() {
  if (is_sequential_) source_.expect(ReadPattern::kScattered);
}

void ReadAhead::start() {
  for (const Extent& stretch : stretches_) source_.announce(stretch);
  is_sequential_ = added_ >= kLongStretch * stretches_.size() && added_ > 0;
  if (is_sequential_) {
    source_.expect(ReadPattern::kSequential);
  } else {
    use(0);
  }
}

void ReadAhead::use(std::uint64_t bytes) {
  if (is_sequential_) return;
  const std::uint64_t wanted = used_.fetch_add(bytes) + bytes + kAhead;
  for (std::size_t next = next_; next < runs_.size() && runs_[next].before < wanted;) {
    // On failure another thread took it, and `next` is updated.
    if (next_.compare_exchange_weak(next, next + 1)) source_.prefetch(runs_[next++].extent);
  }
}

}  // namespace espalier
