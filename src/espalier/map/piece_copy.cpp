#include "espalier/map/piece_copy.h"

#include <algorithm>
#include <cstring>

#include "espalier/map/transpose.h"

namespace espalier {
namespace {

// The steps i of [0, count) for which begin + i * step < limit_end and end + i * step >
// limit_begin.
void clip(std::uint64_t count, std::int64_t step, std::int64_t begin, std::int64_t end,
          std::int64_t limit_begin, std::int64_t limit_end, std::uint64_t& first,
          std::uint64_t& last) {
  if (step < 0) {
    // The same steps, counted from the last one.
    const auto back = step * static_cast<std::int64_t>(count - 1);
    std::uint64_t mirrored_first = 0;
    std::uint64_t mirrored_last = count;
    clip(count, -step, begin + back, end + back, limit_begin, limit_end, mirrored_first,
         mirrored_last);
    first = std::max(first, count - mirrored_last);
    last = std::min(last, count - mirrored_first);
    return;
  }
  if (begin >= limit_end) {
    last = 0;
    return;
  }
  if (step == 0) {
    if (end <= limit_begin) last = 0;
    return;
  }
  if (end <= limit_begin) {
    first = std::max(first, static_cast<std::uint64_t>((limit_begin - end) / step + 1));
  }
  last = std::min(last, static_cast<std::uint64_t>((limit_end - 1 - begin) / step + 1));
}

template <std::size_t kRun>
void copy_line(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
               std::size_t run, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kRun != 0 ? kRun : run);
    from += from_step;
    to += to_step;
  }
}

// Runs of a size that the compiler knows are single moves.
void copy_line(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
               std::size_t run, std::uint64_t count) {
  switch (run) {
    case 1:
      return copy_line<1>(from, from_step, to, to_step, run, count);
    case 2:
      return copy_line<2>(from, from_step, to, to_step, run, count);
    case 4:
      return copy_line<4>(from, from_step, to, to_step, run, count);
    case 8:
      return copy_line<8>(from, from_step, to, to_step, run, count);
    default:
      return copy_line<0>(from, from_step, to, to_step, run, count);
  }
}

}  // namespace

struct PieceCopy::Copying {
  Window source;
  Window target;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

PieceCopy::PieceCopy(const MapPiece& piece, std::uint64_t elements, std::uint64_t bytes) {
  const auto in_bytes = [&](std::int64_t position) {
    return position / static_cast<std::int64_t>(elements) * static_cast<std::int64_t>(bytes);
  };
  from_ = in_bytes(piece.from);
  to_ = in_bytes(piece.to);
  run_ = static_cast<std::int64_t>(bytes);
  for (const MapLoop& loop : piece.loops) {
    if (&loop == &piece.loops.back() && loop.from == 1 && loop.to == 1) {
      run_ = in_bytes(static_cast<std::int64_t>(loop.count));
      continue;
    }
    Loop own{loop.count, in_bytes(loop.from), in_bytes(loop.to)};
    if (own.to < 0) {
      const auto back = static_cast<std::int64_t>(own.count - 1);
      from_ += own.from * back;
      to_ += own.to * back;
      own.from = -own.from;
      own.to = -own.to;
    }
    loops_.push_back(own);
  }
  reaches_.assign(loops_.size() + 1, Reach{0, run_, run_});
  for (std::size_t i = loops_.size(); i-- > 0;) {
    const auto last = static_cast<std::int64_t>(loops_[i].count - 1);
    reaches_[i] = reaches_[i + 1];
    reaches_[i].to_end += last * loops_[i].to;
    (loops_[i].from < 0 ? reaches_[i].from_begin : reaches_[i].from_end) += last * loops_[i].from;
  }
  source_begin_ = static_cast<std::uint64_t>(from_ + reaches_[0].from_begin);
  source_end_ = static_cast<std::uint64_t>(from_ + reaches_[0].from_end);
  target_begin_ = static_cast<std::uint64_t>(to_);
  target_end_ = static_cast<std::uint64_t>(to_ + reaches_[0].to_end);
}

PieceCopy::Steps PieceCopy::steps_within(std::size_t level, std::int64_t from, std::int64_t to,
                                         const Window& source, const Window& target) const {
  const Loop& loop = loops_[level];
  const Reach& below = reaches_[level + 1];
  Steps steps{0, loop.count};
  clip(loop.count, loop.to, to, to + below.to_end, static_cast<std::int64_t>(target.begin),
       static_cast<std::int64_t>(target.end), steps.begin, steps.end);
  clip(loop.count, loop.from, from + below.from_begin, from + below.from_end,
       static_cast<std::int64_t>(source.begin), static_cast<std::int64_t>(source.end), steps.begin,
       steps.end);
  return steps;
}

bool PieceCopy::needs_within(std::size_t level, std::int64_t from, std::int64_t to,
                             const Window& source, const Window& target) const {
  if (level == loops_.size()) {
    // The part of the run that is in the window of the target must be in that of the source.
    const std::int64_t begin =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(target.begin) - to);
    const std::int64_t end = std::min(run_, static_cast<std::int64_t>(target.end) - to);
    return begin < end && from + begin < static_cast<std::int64_t>(source.end) &&
           from + end > static_cast<std::int64_t>(source.begin);
  }
  const Steps steps = steps_within(level, from, to, source, target);
  for (std::uint64_t i = steps.begin; i < steps.end; ++i) {
    const auto step = static_cast<std::int64_t>(i);
    if (needs_within(level + 1, from + step * loops_[level].from, to + step * loops_[level].to,
                     source, target)) {
      return true;
    }
  }
  return false;
}

bool PieceCopy::visit_source(const Copying& copying, std::size_t level, std::int64_t from,
                             std::int64_t to, FunctionRef<bool(Window)> visit) const {
  if (level == loops_.size()) {
    const auto [begin, end] = run_within(copying, from, to);
    return begin >= end || visit({static_cast<std::uint64_t>(from + begin),
                                  static_cast<std::uint64_t>(from + end)});
  }
  const Loop& loop = loops_[level];
  if (is_transposed(level)) {
    // What follows each other in the source is one run, whatever becomes of it in the target.
    const Loop& column = loops_[level + 1];
    Steps columns{0, column.count};
    clip(column.count, column.from, from, from + loop.from * static_cast<std::int64_t>(loop.count),
         static_cast<std::int64_t>(copying.source.begin),
         static_cast<std::int64_t>(copying.source.end), columns.begin, columns.end);
    for (std::uint64_t k = columns.begin; k < columns.end; ++k) {
      const auto x = static_cast<std::int64_t>(k);
      const std::int64_t at = from + x * column.from;
      const Steps rows = steps_of_row(loop, at, to + x * column.to, copying);
      if (rows.begin >= rows.end) continue;
      const Window run{
          static_cast<std::uint64_t>(at + static_cast<std::int64_t>(rows.begin) * run_),
          static_cast<std::uint64_t>(at + static_cast<std::int64_t>(rows.end) * run_)};
      if (!visit(
              {std::max(run.begin, copying.source.begin), std::min(run.end, copying.source.end)}))
        return false;
    }
    return true;
  }
  const Steps steps = steps_within(level, from, to, copying.source, copying.target);
  for (std::uint64_t i = steps.begin; i < steps.end; ++i) {
    const auto step = static_cast<std::int64_t>(i);
    if (!visit_source(copying, level + 1, from + step * loop.from, to + step * loop.to, visit))
      return false;
  }
  return true;
}

bool PieceCopy::for_each_source_run(const Window& source, const Window& target,
                                    FunctionRef<bool(Window)> visit) const {
  return visit_source({source, target}, 0, from_, to_, visit);
}

bool PieceCopy::needs(const Window& source, const Window& target) const {
  return needs_within(0, from_, to_, source, target);
}

PieceCopy::Window PieceCopy::source_for(const Window& target) const {
  if (target.end <= target_begin_ || target.begin >= target_end_) return {};
  // Narrows the outermost loops as long as the window leaves one step of them.
  std::int64_t from = from_;
  std::int64_t to = to_;
  const Window all{0, static_cast<std::uint64_t>(INT64_MAX)};
  for (std::size_t level = 0; level < loops_.size(); ++level) {
    const Steps steps = steps_within(level, from, to, all, target);
    if (steps.begin >= steps.end) return {};
    const Loop& loop = loops_[level];
    const auto first = static_cast<std::int64_t>(steps.begin);
    const auto last = static_cast<std::int64_t>(steps.end - 1);
    if (first == last) {
      from += first * loop.from;
      to += first * loop.to;
      continue;
    }
    const Reach& below = reaches_[level + 1];
    const std::int64_t low = std::min(first * loop.from, last * loop.from);
    const std::int64_t high = std::max(first * loop.from, last * loop.from);
    return {static_cast<std::uint64_t>(from + low + below.from_begin),
            static_cast<std::uint64_t>(from + high + below.from_end)};
  }
  const std::int64_t begin =
      std::max<std::int64_t>(0, static_cast<std::int64_t>(target.begin) - to);
  const std::int64_t end = std::min(run_, static_cast<std::int64_t>(target.end) - to);
  if (begin >= end) return {};
  return {static_cast<std::uint64_t>(from + begin), static_cast<std::uint64_t>(from + end)};
}

void PieceCopy::copy_run(const Copying& copying, std::int64_t from, std::int64_t to) const {
  const auto [begin, end] = run_within(copying, from, to);
  if (begin >= end) return;
  std::memcpy(copying.to + (to + begin - static_cast<std::int64_t>(copying.target.begin)),
              copying.from + (from + begin - static_cast<std::int64_t>(copying.source.begin)),
              static_cast<std::size_t>(end - begin));
}

// The bytes of a run that lie in both windows.
PieceCopy::Bytes PieceCopy::run_within(const Copying& copying, std::int64_t from,
                                       std::int64_t to) const {
  return {std::max({std::int64_t{0}, static_cast<std::int64_t>(copying.source.begin) - from,
                    static_cast<std::int64_t>(copying.target.begin) - to}),
          std::min({run_, static_cast<std::int64_t>(copying.source.end) - from,
                    static_cast<std::int64_t>(copying.target.end) - to})};
}

// Whether the last two loops go along the source, and then along the target.
bool PieceCopy::is_transposed(std::size_t level) const {
  return level + 2 == loops_.size() && loops_[level].from == run_ && loops_[level].to > 0 &&
         loops_[level + 1].to == run_ && loops_[level + 1].from > 0;
}

// What follows each other in the source goes to different rows of the target. The rectangle that is
// whole in both windows goes at once, and what they cut at its edges element by element.
void PieceCopy::copy_transposed(const Copying& copying, std::size_t level, std::int64_t from,
                                std::int64_t to) const {
  const Loop& row = loops_[level];
  const Loop& column = loops_[level + 1];
  const auto source_begin = static_cast<std::int64_t>(copying.source.begin);
  const auto source_end = static_cast<std::int64_t>(copying.source.end);
  const auto target_begin = static_cast<std::int64_t>(copying.target.begin);
  const auto target_end = static_cast<std::int64_t>(copying.target.end);
  const Steps rows = steps_within(level, from, to, copying.source, copying.target);
  if (rows.begin >= rows.end) return;
  const auto first_row = static_cast<std::int64_t>(rows.begin);
  const auto last_row = static_cast<std::int64_t>(rows.end) - 1;
  Steps columns{0, column.count};
  clip(column.count, column.from, from + first_row * row.from, from + last_row * row.from + run_,
       source_begin, source_end, columns.begin, columns.end);
  clip(column.count, column.to, to + first_row * row.to, to + last_row * row.to + run_,
       target_begin, target_end, columns.begin, columns.end);
  if (columns.begin >= columns.end) return;
  // Columns whose elements of all rows lie in the window of the source; then rows likewise.
  const Steps whole_columns = within(columns, column.from, from + first_row * row.from,
                                     from + last_row * row.from + run_, source_begin, source_end);
  const Steps whole_rows =
      within(rows, row.to, to + static_cast<std::int64_t>(whole_columns.begin) * run_,
             to + static_cast<std::int64_t>(whole_columns.end) * run_, target_begin, target_end);
  const auto copy_one = [&](std::uint64_t i, std::uint64_t k) {
    const auto y = static_cast<std::int64_t>(i);
    const auto x = static_cast<std::int64_t>(k);
    copy_run(copying, from + y * row.from + x * column.from, to + y * row.to + x * column.to);
  };
  for (std::uint64_t k = columns.begin; k < columns.end; ++k) {
    if (k == whole_columns.begin) k = whole_columns.end;
    if (k >= columns.end) break;
    const auto x = static_cast<std::int64_t>(k);
    const Steps own = steps_of_row(row, from + x * column.from, to + x * column.to, copying);
    for (std::uint64_t i = own.begin; i < own.end; ++i) copy_one(i, k);
  }
  for (std::uint64_t i = rows.begin; i < rows.end; ++i) {
    if (i == whole_rows.begin) i = whole_rows.end;
    if (i >= rows.end) break;
    for (std::uint64_t k = whole_columns.begin; k < whole_columns.end; ++k) copy_one(i, k);
  }
  if (whole_columns.begin >= whole_columns.end || whole_rows.begin >= whole_rows.end) return;
  const auto y = static_cast<std::int64_t>(whole_rows.begin);
  const auto x = static_cast<std::int64_t>(whole_columns.begin);
  transpose(static_cast<std::uint64_t>(run_),
            copying.from + (from + y * row.from + x * column.from - source_begin), column.from,
            copying.to + (to + y * row.to + x * column.to - target_begin), row.to,
            whole_rows.end - whole_rows.begin, whole_columns.end - whole_columns.begin);
}

// The steps of a loop whose bytes, from `begin` to `end` and moved by the step, lie wholly within
// the limits; an empty range at the end of `steps` if there are none.
PieceCopy::Steps PieceCopy::within(const Steps& steps, std::int64_t step, std::int64_t begin,
                                   std::int64_t end, std::int64_t limit_begin,
                                   std::int64_t limit_end) {
  Steps whole = steps;
  if (begin < limit_begin) {
    whole.begin =
        std::max(whole.begin, static_cast<std::uint64_t>((limit_begin - begin + step - 1) / step));
  }
  if (end > limit_end) return {steps.end, steps.end};
  whole.end = std::min(whole.end, static_cast<std::uint64_t>((limit_end - end) / step + 1));
  if (whole.begin >= whole.end) return {steps.end, steps.end};
  return whole;
}

PieceCopy::Steps PieceCopy::steps_of_row(const Loop& row, std::int64_t from, std::int64_t to,
                                         const Copying& copying) const {
  Steps steps{0, row.count};
  clip(row.count, row.from, from, from + run_, static_cast<std::int64_t>(copying.source.begin),
       static_cast<std::int64_t>(copying.source.end), steps.begin, steps.end);
  clip(row.count, row.to, to, to + run_, static_cast<std::int64_t>(copying.target.begin),
       static_cast<std::int64_t>(copying.target.end), steps.begin, steps.end);
  return steps;
}

// Recursion is as deep as a target has loops.
void PieceCopy::copy_within(const Copying& copying, std::size_t level, std::int64_t from,
                            std::int64_t to) const {
  if (level == loops_.size()) return copy_run(copying, from, to);
  if (is_transposed(level) && can_transpose(static_cast<std::uint64_t>(run_))) {
    return copy_transposed(copying, level, from, to);
  }
  const Loop& loop = loops_[level];
  const Steps steps = steps_within(level, from, to, copying.source, copying.target);
  Steps whole{steps.end, steps.end};
  if (level + 1 == loops_.size() && loop.from > 0 && loop.to > 0) {
    whole =
        within(steps, loop.from, from, from + run_, static_cast<std::int64_t>(copying.source.begin),
               static_cast<std::int64_t>(copying.source.end));
    whole = within(whole, loop.to, to, to + run_, static_cast<std::int64_t>(copying.target.begin),
                   static_cast<std::int64_t>(copying.target.end));
  }
  if (whole.begin < whole.end) {
    const auto first = static_cast<std::int64_t>(whole.begin);
    copy_line(
        copying.from + (from + first * loop.from - static_cast<std::int64_t>(copying.source.begin)),
        loop.from,
        copying.to + (to + first * loop.to - static_cast<std::int64_t>(copying.target.begin)),
        loop.to, static_cast<std::size_t>(run_), whole.end - whole.begin);
  }
  for (std::uint64_t i = steps.begin; i < steps.end; ++i) {
    if (i == whole.begin) i = whole.end;
    if (i >= steps.end) break;
    const auto step = static_cast<std::int64_t>(i);
    copy_within(copying, level + 1, from + step * loop.from, to + step * loop.to);
  }
}

void PieceCopy::copy(const Window& source, const std::byte* from, const Window& target,
                     std::byte* to) const {
  copy_within({source, target, from, to}, 0, from_, to_);
}

void PieceCopy::visit_within(std::size_t level, std::int64_t to, const Window& target,
                             FunctionRef<void(Window)> visit) const {
  if (level == loops_.size()) {
    const std::uint64_t begin = std::max(static_cast<std::uint64_t>(to), target.begin);
    const std::uint64_t end = std::min(static_cast<std::uint64_t>(to + run_), target.end);
    if (begin < end) visit({begin, end});
    return;
  }
  Steps steps{0, loops_[level].count};
  clip(loops_[level].count, loops_[level].to, to, to + reaches_[level + 1].to_end,
       static_cast<std::int64_t>(target.begin), static_cast<std::int64_t>(target.end), steps.begin,
       steps.end);
  for (std::uint64_t i = steps.begin; i < steps.end; ++i) {
    visit_within(level + 1, to + static_cast<std::int64_t>(i) * loops_[level].to, target, visit);
  }
}

void PieceCopy::for_each_run(const Window& target, FunctionRef<void(Window)> visit) const {
  visit_within(0, to_, target, visit);
}

}  // namespace espalier
