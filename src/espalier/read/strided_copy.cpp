#include "espalier/read/strided_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace espalier {
namespace {

// Copies `count` bits between positions within bytes. Slow and rare: slices of 2-, 4- and 6-bit
// types.
void copy_bits(const std::byte* from, std::uint64_t from_bit, std::byte* to, std::uint64_t to_bit,
               std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t source = from_bit + i;
    const std::uint64_t target = to_bit + i;
    const bool bit = ((std::to_integer<unsigned>(from[source / 8]) >> (source % 8)) & 1u) != 0;
    const auto mask = std::byte{1} << static_cast<int>(target % 8);
    if (bit) {
      to[target / 8] |= mask;
    } else {
      to[target / 8] &= ~mask;
    }
  }
}

// A rectangle of whole runs.
struct Grid {
  CopyLoop outer;
  CopyLoop inner;
};

template <std::size_t kRun>
void copy_line(const std::byte* from, std::byte* to, const CopyLoop& loop, std::uint64_t run) {
  for (std::uint64_t i = 0; i < loop.count; ++i) {
    std::memcpy(to + i * loop.to, from + i * loop.from,
                kRun != 0 ? kRun : static_cast<std::size_t>(run));
  }
}

// Writes memory in the order of the result if possible: a transposed tensor, copied in the order of
// its source, would touch a page for each element.
template <std::size_t kRun>
void copy_grid(const std::byte* from, std::byte* to, const Grid& grid, std::uint64_t run) {
  constexpr std::uint64_t kTile = 32;
  if (grid.inner.to <= grid.outer.to) {
    for (std::uint64_t i = 0; i < grid.outer.count; ++i) {
      copy_line<kRun>(from + i * grid.outer.from, to + i * grid.outer.to, grid.inner, run);
    }
    return;
  }
  for (std::uint64_t first = 0; first < grid.outer.count; first += kTile) {
    const CopyLoop tile = {std::min(kTile, grid.outer.count - first), grid.outer.from,
                           grid.outer.to};
    for (std::uint64_t i = 0; i < grid.inner.count; ++i) {
      copy_line<kRun>(from + first * tile.from + i * grid.inner.from,
                      to + first * tile.to + i * grid.inner.to, tile, run);
    }
  }
}

void copy_grid(const std::byte* from, std::byte* to, const Grid& grid, std::uint64_t run) {
  switch (run) {
    case 1:
      return copy_grid<1>(from, to, grid, run);
    case 2:
      return copy_grid<2>(from, to, grid, run);
    case 4:
      return copy_grid<4>(from, to, grid, run);
    case 8:
      return copy_grid<8>(from, to, grid, run);
    case 16:
      return copy_grid<16>(from, to, grid, run);
    default:
      return copy_grid<0>(from, to, grid, run);
  }
}

// Merges loops that are contiguous in both source and result. The innermost of `loops` is last.
std::vector<CopyLoop> joined(std::vector<CopyLoop> loops, std::uint64_t& run) {
  std::vector<CopyLoop> outwards;  // innermost first
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    if (outwards.empty() && loop->from == run && loop->to == run) {
      run *= loop->count;
    } else if (!outwards.empty() && loop->from == outwards.back().count * outwards.back().from &&
               loop->to == outwards.back().count * outwards.back().to) {
      outwards.back().count *= loop->count;
    } else {
      outwards.push_back(*loop);
    }
  }
  return {outwards.rbegin(), outwards.rend()};
}

}  // namespace

// A part of the source, in units, with the addresses of its bytes and of the result.
struct StridedCopy::Window {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  const std::byte* from = nullptr;  // of unit `begin`
  std::byte* to = nullptr;          // of unit `origin` of the result
  std::uint64_t origin = 0;
};

StridedCopy::StridedCopy(std::uint32_t unit_bits, std::uint64_t base, std::uint64_t run,
                         std::vector<CopyLoop> loops)
    : unit_bits_(unit_bits), base_(base), run_(run) {
  std::erase_if(loops, [](const CopyLoop& loop) { return loop.count == 1; });
  // Repetitions come outermost: a row that is used a thousand times is still copied as a whole. Of
  // two equal steps, that which is longer in the result comes first, so that both can be joined.
  // The few loops are sorted by insertion, as std::stable_sort takes 3 KB of WebAssembly.
  std::vector<CopyLoop> sorted;
  for (const CopyLoop& loop : loops) {
    const auto after = std::find_if(sorted.begin(), sorted.end(), [&](const CopyLoop& other) {
      return loop.from - 1 > other.from - 1 || (loop.from == other.from && loop.to > other.to);
    });
    sorted.insert(after, loop);
  }
  loops_ = joined(std::move(sorted), run_);
  runs_ = run_ == 0 ? 0 : 1;
  for (const CopyLoop& loop : loops_) runs_ *= loop.count;
  if (runs_ == 0) return;
  extents_.assign(loops_.size() + 1, run_);
  std::uint64_t packed = run_;
  for (std::size_t i = loops_.size(); i-- > 0;) {
    is_ordered_ = is_ordered_ && loops_[i].from >= extents_[i + 1] && loops_[i].to == packed;
    packed *= loops_[i].count;
    extents_[i] = extents_[i + 1] + (loops_[i].count - 1) * loops_[i].from;
  }
}

std::uint64_t StridedCopy::bytes() const {
  const std::uint64_t units = runs_ * run_;
  return unit_bits_ == 8 ? units : units / 8 + (units % 8 != 0 ? 1 : 0);
}

// The source unit of run `run`, which begins at unit run * run_ of the result. For ordered copies.
std::uint64_t StridedCopy::run_begin(std::uint64_t run) const {
  std::uint64_t begin = base_;
  for (std::size_t i = loops_.size(); i-- > 0;) {
    begin += run % loops_[i].count * loops_[i].from;
    run /= loops_[i].count;
  }
  return begin;
}

// For ordered copies: their runs ascend, so binary search finds the first one in a part.
std::uint64_t StridedCopy::first_run_ending_after(std::uint64_t unit) const {
  std::uint64_t low = 0;
  std::uint64_t high = runs_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (run_begin(middle) + run_ > unit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The number of result units that come from before unit `unit` of the source. For ordered copies.
std::uint64_t StridedCopy::result_before(std::uint64_t unit) const {
  const std::uint64_t run = first_run_ending_after(unit);
  if (run == runs_) return runs_ * run_;
  const std::uint64_t begin = run_begin(run);
  return run * run_ + (unit > begin ? unit - begin : 0);
}

StridedCopy::Window StridedCopy::window(std::uint64_t begin, std::uint64_t length) const {
  const std::uint64_t scale = 8 / unit_bits_;
  return {.begin = begin * scale, .end = (begin + length) * scale};
}

std::optional<std::uint64_t> StridedCopy::landing(std::uint64_t begin, std::uint64_t length) const {
  if (unit_bits_ != 8 || !is_ordered_) return std::nullopt;
  const std::uint64_t run = first_run_ending_after(begin);
  if (run == runs_) return std::nullopt;
  const std::uint64_t run_start = run_begin(run);
  if (run_start > begin || begin + length > run_start + run_) return std::nullopt;
  return run * run_ + (begin - run_start);
}

StridedCopy::Stretch StridedCopy::stretch(std::uint64_t begin, std::uint64_t length) const {
  if (!is_ordered_) return {0, bytes()};
  const Window held = window(begin, length);
  const std::uint64_t scale = 8 / unit_bits_;
  const std::uint64_t first = result_before(held.begin) / scale;
  return {first, (result_before(held.end) + scale - 1) / scale - first};
}

std::optional<std::uint64_t> StridedCopy::offset_in_piece(std::uint64_t begin,
                                                          std::uint64_t length) const {
  const Stretch part = stretch(begin, length);
  if (unit_bits_ != 8 || !is_ordered_ || part.length == 0) return std::nullopt;
  if (part.begin / run_ != (part.begin + part.length - 1) / run_) return std::nullopt;
  return std::max(run_begin(first_run_ending_after(begin)), begin) - begin;
}

// The steps of a loop that may touch the window.
StridedCopy::Steps StridedCopy::steps_within(const Window& window, std::size_t level,
                                             std::uint64_t from) const {
  const CopyLoop& loop = loops_[level];
  const std::uint64_t end = from + extents_[level + 1];
  if (from >= window.end) return {0, 0};
  if (loop.from == 0) return {0, end > window.begin ? loop.count : 0};
  return {end > window.begin ? 0 : (window.begin - end) / loop.from + 1,
          std::min(loop.count, (window.end - 1 - from) / loop.from + 1)};
}

bool StridedCopy::any_within(const Window& window, std::size_t level, std::uint64_t from) const {
  if (level == loops_.size()) return from < window.end && from + run_ > window.begin;
  const Steps steps = steps_within(window, level, from);
  for (std::uint64_t i = steps.begin; i < steps.end; ++i) {
    if (any_within(window, level + 1, from + i * loops_[level].from)) return true;
    // Repetitions need the same bytes.
    if (loops_[level].from == 0) return false;
  }
  return false;
}

bool StridedCopy::needs(std::uint64_t begin, std::uint64_t length) const {
  return runs_ > 0 && any_within(window(begin, length), 0, base_);
}

void StridedCopy::copy_run(const Window& window, std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t begin = std::max(from, window.begin);
  const std::uint64_t end = std::min(from + run_, window.end);
  if (begin >= end) return;
  const std::uint64_t target = to + (begin - from) - window.origin;
  if (unit_bits_ == 1) {
    copy_bits(window.from, begin - window.begin, window.to, target, end - begin);
    return;
  }
  std::memcpy(window.to + target, window.from + (begin - window.begin),
              static_cast<std::size_t>(end - begin));
}

// Recursion is as deep as a tensor has axes.
void StridedCopy::copy_within(const Window& window, std::size_t level, std::uint64_t from,
                              std::uint64_t to) const {
  if (level == loops_.size()) return copy_run(window, from, to);
  const CopyLoop& loop = loops_[level];
  const Steps steps = steps_within(window, level, from);
  std::uint64_t i = steps.begin;
  if (unit_bits_ == 8 && level + 2 >= loops_.size()) {
    // The innermost two loops at once, for all steps that lie wholly within the window.
    const std::uint64_t extent = extents_[level + 1];
    const auto is_whole = [&](std::uint64_t step) {
      const std::uint64_t begin = from + step * loop.from;
      return begin >= window.begin && begin + extent <= window.end;
    };
    while (i < steps.end && !is_whole(i)) {
      copy_within(window, level + 1, from + i * loop.from, to + i * loop.to);
      ++i;
    }
    if (i < steps.end) {
      const std::uint64_t begin = from + i * loop.from;
      std::uint64_t count = steps.end - i;
      if (loop.from != 0) {
        count = std::min(count, (window.end - extent - begin) / loop.from + 1);
      }
      const CopyLoop once = {1, 0, 0};
      const CopyLoop whole = {count, loop.from, loop.to};
      const bool is_last = level + 1 == loops_.size();
      copy_grid(window.from + (begin - window.begin),
                window.to + (to + i * loop.to - window.origin),
                is_last ? Grid{once, whole} : Grid{whole, loops_[level + 1]}, run_);
      i += count;
    }
  }
  for (; i < steps.end; ++i) {
    copy_within(window, level + 1, from + i * loop.from, to + i * loop.to);
  }
}

void StridedCopy::copy(std::uint64_t begin, ByteSpan piece, MutableByteSpan out,
                       std::uint64_t out_begin) const {
  if (runs_ == 0) return;
  Window held = window(begin, piece.size());
  held.from = piece.data();
  held.to = out.data();
  held.origin = out_begin * (8 / unit_bits_);
  copy_within(held, 0, base_, 0);
}

ResultPart StridedCopy::part(std::uint64_t begin, ByteSpan piece,
                             std::vector<std::byte>& scratch) const {
  const Stretch part = stretch(begin, piece.size());
  const auto length = static_cast<std::size_t>(part.length);
  if (const auto at = offset_in_piece(begin, piece.size())) {
    return {part.begin, piece.subspan(static_cast<std::size_t>(*at), length)};
  }
  scratch.assign(length, std::byte{0});
  copy(begin, piece, scratch, part.begin);
  return {part.begin, scratch};
}

void StridedCopy::clear_end(MutableByteSpan out) const {
  const std::uint64_t bits = unit_bits_ == 1 ? runs_ * run_ % 8 : 0;
  if (bits != 0) out.back() &= static_cast<std::byte>((1u << bits) - 1);
}

}  // namespace espalier
