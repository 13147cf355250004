// Counts how often each bit pattern occurs.
#ifndef ESPALIER_TREE_CODE_COUNTS_H_
#define ESPALIER_TREE_CODE_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/bytes.h"

namespace espalier {

/// The codes in the bytes.
enum class Codes : std::uint8_t {
  kSixBits,      // four in three bytes, low bits first
  kBytes,        // every byte
  kWords,        // every two bytes
  kUpperHalves,  // the upper two of every four bytes
};

/// Counts codes of at most 16 bits. Takes 8 KiB of memory, or 512 KiB for codes of 16 bits, and
/// twice that beyond some ten million codes; none before the first add(), and little for the first
/// thousand codes of 16 bits, because small tensors are many. Not thread-safe.
class CodeCounts {
 public:
  explicit CodeCounts(Codes codes) : codes_(codes) {}

  /// Counts all whole codes in `packed`, from its first bit on. Ignores an incomplete code at the
  /// end.
  void add(ByteSpan packed);
  /// Adds the counts of the same sort of codes.
  void merge(const CodeCounts& other);
  /// Resets all counts and keeps the memory. Faster after few codes.
  void clear();

  /// Calls `visit(code, count)` for all codes that occurred, in ascending order.
  void for_each(FunctionRef<void(std::uint16_t code, std::uint64_t count)> visit) const;

 private:
  /// Each code has several adjacent counters, so that equal neighbours do not wait for each other's
  /// store. Wide codes have fewer, because more counters would not stay in the cache.
  static constexpr std::size_t kNarrowLanes = 8;
  static constexpr std::size_t kWideLanes = 2;
  /// Codes are scanned by pages, because those of a small tensor are in few pages.
  static constexpr std::size_t kPage = 256;

  bool is_wide() const { return codes_ == Codes::kWords || codes_ == Codes::kUpperHalves; }
  std::size_t lanes() const { return is_wide() ? kWideLanes : kNarrowLanes; }
  std::size_t pages() const { return counters_.size() / (kPage * lanes()); }
  std::uint64_t total(std::size_t code) const {
    std::uint64_t sum = totals_.empty() ? 0 : totals_[code];
    for (std::size_t i = code * lanes(); i < (code + 1) * lanes(); ++i) sum += counters_[i];
    return sum;
  }
  bool keep_few(ByteSpan packed);
  void allocate();
  void flush();
  void count(ByteSpan packed);
  void count_sixes(ByteSpan packed);
  template <class Stored, int kShift>
  void count_stored(ByteSpan packed);

  Codes codes_;
  std::vector<std::uint16_t> few_;       // all codes, until there are too many
  std::vector<std::uint32_t> counters_;  // by code, then lane
  std::vector<std::uint64_t> totals_;    // by code: counts flushed from the counters
  std::uint64_t unflushed_ = 0;      // codes in the counters; bounded so that they cannot overflow
  std::array<bool, 256> touched_{};  // pages with nonzero counters
};

}  // namespace espalier

#endif  // ESPALIER_TREE_CODE_COUNTS_H_
