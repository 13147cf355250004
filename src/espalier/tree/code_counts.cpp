#include "espalier/tree/code_counts.h"

#include <algorithm>

#include "espalier/base/little_endian.h"
#include "espalier/base/merge_sort.h"

namespace espalier {
namespace {

// Codes until the counters are flushed. They could hold 2^32, but flushing is cheap, and this way a
// test reaches it.
constexpr std::uint64_t kFlushAfter = std::uint64_t{1} << 25;
// Bytes counted at once: whole codes of any sort, and far fewer than may be unflushed.
constexpr std::size_t kStep = std::size_t{3} << 20;
// Up to this many codes, it pays to sort them in place of counting.
constexpr std::size_t kVeryFew = 1024;

}  // namespace

// Makes the counters, and counts what was kept.
void CodeCounts::allocate() {
  if (!counters_.empty()) return;
  counters_.resize((is_wide() ? 256 : 1) * kPage * lanes());
  for (const std::uint16_t code : few_) {
    ++counters_[code * lanes()];
    touched_[code / kPage] = true;
  }
  unflushed_ = few_.size();
  few_ = {};
}

// Keeps codes of 16 bits as they are, while they are few and there are no counters.
bool CodeCounts::keep_few(ByteSpan packed) {
  if (!is_wide() || !counters_.empty()) return false;
  const std::size_t width = codes_ == Codes::kWords ? 2 : 4;
  const std::size_t codes = packed.size() / width;
  if (codes > kVeryFew - few_.size()) return false;
  for (std::size_t i = 0; i < codes; ++i) {
    few_.push_back(load_le<std::uint16_t>(packed.data() + i * width + (width - 2)));
  }
  return true;
}

void CodeCounts::for_each(FunctionRef<void(std::uint16_t, std::uint64_t)> visit) const {
  std::vector<std::uint32_t> sorted(few_.begin(), few_.end());
  sort_numbers(sorted, [](std::uint32_t a, std::uint32_t b) { return a < b; });
  for (std::size_t i = 0, end = 0; i < sorted.size(); i = end) {
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    visit(static_cast<std::uint16_t>(sorted[i]), std::uint64_t{end - i});
  }
  for (std::size_t page = 0; page < pages(); ++page) {
    if (!touched_[page]) continue;
    for (std::size_t code = page * kPage; code < (page + 1) * kPage; ++code) {
      if (const std::uint64_t count = total(code)) visit(static_cast<std::uint16_t>(code), count);
    }
  }
}

void CodeCounts::add(ByteSpan packed) {
  if (packed.empty() || keep_few(packed)) return;
  allocate();
  while (!packed.empty()) {
    const ByteSpan step = packed.first(std::min(packed.size(), kStep));
    // There are four codes in three bytes at most.
    const std::uint64_t codes = step.size() * 4 / 3 + 1;
    if (unflushed_ + codes > kFlushAfter) flush();
    unflushed_ += codes;
    count(step);
    packed = packed.subspan(step.size());
  }
}

void CodeCounts::flush() {
  if (totals_.empty()) totals_.resize(counters_.size() / lanes());
  for_each([&](std::uint16_t code, std::uint64_t count) { totals_[code] = count; });
  std::fill(counters_.begin(), counters_.end(), 0u);
  unflushed_ = 0;
}

void CodeCounts::merge(const CodeCounts& other) {
  if (other.codes_ != codes_ || (other.counters_.empty() && other.few_.empty())) return;
  allocate();
  if (totals_.empty()) totals_.resize(counters_.size() / lanes());
  other.for_each([&](std::uint16_t code, std::uint64_t count) {
    totals_[code] += count;
    touched_[code / kPage] = true;
  });
}

void CodeCounts::clear() {
  few_.clear();
  for (std::size_t page = 0; page < pages(); ++page) {
    if (!touched_[page]) continue;
    std::fill_n(counters_.data() + page * kPage * lanes(), kPage * lanes(), 0u);
    if (!totals_.empty()) std::fill_n(totals_.data() + page * kPage, kPage, std::uint64_t{0});
  }
  touched_.fill(false);
  unflushed_ = 0;
}

}  // namespace espalier
