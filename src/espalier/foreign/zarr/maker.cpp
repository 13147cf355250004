#include "espalier/foreign/zarr/maker.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/whole_machine.h"
#include "espalier/foreign/zarr/unpacker.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

constexpr std::uint64_t kAbsent = ~std::uint64_t{0};

using Numbers = std::vector<std::uint64_t>;

// Whether chunks cut `region` into pieces that follow each other: one along the first axes, all of
// the last ones, and anything along the one between.
bool are_runs(const Numbers& region, const ZarrGrid& grid) {
  const Numbers& chunk = grid.chunk;
  std::size_t axis = 0;
  while (axis < chunk.size() && chunk[axis] == 1) ++axis;
  for (std::size_t i = axis + 1; i < chunk.size(); ++i) {
    if (chunk[i] != region[i]) return false;
  }
  for (std::size_t i = 0; i < grid.order.size(); ++i) {
    if (grid.order[i] != i) return false;
  }
  return !grid.inner || are_runs(chunk, *grid.inner);
}

bool are_runs(const ZarrArray& array) { return are_runs(array.shape, array.grid); }

std::uint64_t chunk_count(const ZarrArray& array) {
  std::uint64_t count = 1;
  for (const std::uint64_t each : array.counts()) count *= each;
  return count;
}

std::uint64_t row_count(const ZarrArray& array) {
  return array.shape.empty() ? 1 : array.counts()[0];
}

// Fills with an element, again and again.
void fill_with(MutableByteSpan out, const std::vector<std::byte>& fill, std::uint64_t begin) {
  if (std::all_of(fill.begin(), fill.end(), [](std::byte b) { return b == std::byte{0}; })) {
    if (!out.empty()) std::memset(out.data(), 0, out.size());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = fill[static_cast<std::size_t>((begin + i) % fill.size())];
  }
}

// Goes through the arrays of a file in the order of their bytes.
class ZarrStream final : public MakingStream {
 public:
  ZarrStream(std::shared_ptr<const std::vector<ZarrPart>> parts, std::uint64_t length)
      : parts_(std::move(parts)), length_(length) {}

  std::span<const Extent> needs() const override {
    return need_.length == 0 ? std::span<const Extent>() : std::span(&need_, 1);
  }

  Result<std::size_t> feed(const Extent& extent, ByteSpan bytes, MutableByteSpan out) override {
    if (auto ok = check_fed(extent, bytes); !ok) return propagate(ok);
    const bool is_next = extent.file == need_.file && extent.offset == need_.offset;
    if ((!is_next && !bytes.empty()) || extent.length > need_.length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    input_ = bytes;
    out_ = out;
    if (auto ok = go_on(); !ok) return propagate(ok);
    return out.size() - out_.size();
  }

  Result<void> finish() override {
    if (made_ < length_ || need_.length > 0) {
      return fail(ErrorCode::kIncomplete, "more bytes are needed to put the array together");
    }
    return {};
  }

 private:
  // A chunk, or a chunk of a shard, that comes next.
  struct Task {
    const ZarrGrid* grid = nullptr;
    Numbers origin = {};
    Extent extent = {};
    ByteSpan inline_bytes = {};
    bool is_inline = false;
    bool is_absent = false;
    std::uint64_t absent_bytes = 0;  // of it, and of those behind it that are not there either

    std::uint64_t stored() const { return is_inline ? inline_bytes.size() : extent.length; }
  };

  const ZarrPart& part() const { return (*parts_)[part_]; }
  const ZarrArray& array() const { return *part().array; }

  // Makes what input and output suffice for. need_ is then what comes next.
  Result<void> go_on() {
    for (;;) {
      if (task_) {
        const auto is_done = task_->grid->inner && !task_->is_absent ? read_index() : make_chunk();
        if (!is_done) return propagate(is_done);
        if (!*is_done) return {};
        task_.reset();
        continue;
      }
      if (!tasks_.empty()) {
        begin_task();
        continue;
      }
      // A row of chunks is complete.
      if (is_in_row_ && !is_direct_) {
        if (put(row_, row_begin_) < row_.size()) return {};
        row_.clear();
        row_begin_ = 0;
      }
      is_in_row_ = false;
      if (part_ < parts_->size() && next_row_ < rows_) {
        is_direct_ ? begin_run() : begin_row();
        continue;
      }
      if (is_in_part_) {
        is_in_part_ = false;
        ++part_;
      }
      const std::uint64_t begin = part_ < parts_->size() ? part().to : length_;
      if (made_ < begin) {
        const auto count =
            static_cast<std::size_t>(std::min<std::uint64_t>(begin - made_, out_.size()));
        if (count > 0) std::memset(out_.data(), 0, count);
        use_output(count);
        if (made_ < begin) return {};
      }
      if (part_ == parts_->size()) return {};
      is_in_part_ = true;
      is_direct_ = are_runs(array());
      rows_ = array().elements() == 0 ? 0 : is_direct_ ? chunk_count(array()) : row_count(array());
      next_row_ = 0;
      next_chunk_ = 0;
    }
  }

  void use_output(std::size_t count) {
    out_ = out_.subspan(count);
    made_ += count;
  }
  void use_input(std::size_t count) {
    input_ = input_.subspan(count);
    need_.offset += count;
    need_.length -= count;
  }

  // Copies the rest of `bytes` from `begin` on; where it ends.
  std::size_t put(const std::vector<std::byte>& bytes, std::size_t& begin) {
    const std::size_t count = std::min(bytes.size() - begin, out_.size());
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), count, out_.begin());
    use_output(count);
    begin += count;
    return begin;
  }

  Task task_of(const Numbers& counts, std::uint64_t number, const ZarrChunk& chunk) const {
    Task task{.grid = &array().grid,
              .origin = origin_of(counts, number),
              .extent = chunk.extent,
              .inline_bytes = chunk.inline_bytes,
              .is_inline = chunk.is_inline};
    return task;
  }
  Numbers origin_of(const Numbers& counts, std::uint64_t number) const {
    Numbers origin = grid_position(counts, number);
    for (std::size_t i = 0; i < origin.size(); ++i) origin[i] *= array().grid.chunk[i];
    return origin;
  }

  // Where a chunk begins in the bytes of the array, if chunks follow each other there.
  std::uint64_t begin_of(const Numbers& counts, std::uint64_t number) const {
    if (number == rows_) return array().bytes();
    const Numbers origin = origin_of(counts, number);
    std::uint64_t elements = 0;
    for (std::size_t i = 0; i < origin.size(); ++i)
      elements = elements * array().shape[i] + origin[i];
    return elements * array().width;
  }

  // The next chunk, which goes straight to the output, or all that are not there until the next
  // one.
  void begin_run() {
    const Numbers counts = array().counts();
    const auto& chunks = part().chunks;
    const std::uint64_t there = next_chunk_ < chunks.size() ? chunks[next_chunk_].number : rows_;
    if (there == next_row_) {
      tasks_.push_back(task_of(counts, next_row_++, chunks[next_chunk_++]));
    } else {
      const std::uint64_t bytes = begin_of(counts, there) - begin_of(counts, next_row_);
      tasks_.push_back({.grid = &array().grid, .is_absent = true, .absent_bytes = bytes});
      next_row_ = there;
    }
    is_in_row_ = true;
  }

  // The chunks of the next row that are there.
  void begin_row() {
    const ZarrArray& a = array();
    const Numbers counts = a.counts();
    std::uint64_t in_row = 1;
    for (std::size_t i = 1; i < counts.size(); ++i) in_row *= counts[i];
    row_first_ = a.shape.empty() ? 0 : next_row_ * a.grid.chunk[0];
    const std::uint64_t rows =
        a.shape.empty() ? 1 : std::min(a.grid.chunk[0], a.shape[0] - row_first_);
    std::uint64_t bytes = rows * a.width;
    for (std::size_t i = 1; i < a.shape.size(); ++i) bytes *= a.shape[i];
    row_.resize(static_cast<std::size_t>(bytes));
    // With what is absent.
    fill_with(row_, a.fill, 0);
    row_begin_ = 0;
    const std::uint64_t end = (next_row_ + 1) * in_row;
    const auto& chunks = part().chunks;
    for (; next_chunk_ < chunks.size() && chunks[next_chunk_].number < end; ++next_chunk_) {
      tasks_.push_back(task_of(counts, chunks[next_chunk_].number, chunks[next_chunk_]));
    }
    std::reverse(tasks_.begin(), tasks_.end());
    ++next_row_;
    is_in_row_ = true;
  }

  void begin_task() {
    task_ = std::move(tasks_.back());
    tasks_.pop_back();
    const Task& task = *task_;
    inline_done_ = 0;
    index_.clear();
    unpacker_.reset();
    need_ = {};
    if (task.is_absent) {
      run_left_ = task.absent_bytes;
      return;
    }
    if (task.grid->inner) {
      const std::uint64_t length = index_bytes(*task.grid);
      if (length > task.stored()) return;  // read_index() says so
      if (!task.is_inline) {
        need_ = task.extent;
        if (!task.grid->is_index_first) need_.offset += need_.length - length;
        need_.length = length;
      }
      return;
    }
    const std::uint64_t size = *chunk_bytes(*task.grid, array().width);
    unpacker_.emplace(*task.grid, task.stored(), size);
    run_left_ = run_of(task);
    if (!task.is_inline) need_ = task.extent;
    chunk_.clear();
    if (!is_direct_) chunk_.resize(static_cast<std::size_t>(size));
    chunk_made_ = 0;
  }

  static std::uint64_t chunks_in(const ZarrGrid& grid) {
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < grid.chunk.size(); ++i)
      count *= grid.chunk[i] / grid.inner->chunk[i];
    return count;
  }
  static std::uint64_t index_bytes(const ZarrGrid& grid) {
    return 16 * chunks_in(grid) + (grid.has_index_crc ? 4 : 0);
  }

  // Elements of a chunk that lie in the array, in bytes.
  std::uint64_t run_of(const Task& task) const {
    std::uint64_t bytes = array().width;
    for (std::size_t i = 0; i < task.origin.size(); ++i) bytes *= reach(task, i);
    return bytes;
  }
  std::uint64_t reach(const Task& task, std::size_t axis) const {
    const std::uint64_t all = array().shape[axis];
    const std::uint64_t begin = task.origin[axis];
    return begin < all ? std::min(task.grid->chunk[axis], all - begin) : 0;
  }

  static tl::unexpected<Error> bad_shard(const std::string& why, const Task& task) {
    return fail(ErrorCode::kForeignInvalid,
                "a shard of the array " + why + "; copy or download the checkpoint again",
                task.is_inline ? Error::kNoOffset : task.extent.offset);
  }

  // Reads the index of a shard, whose chunks are the next tasks.
  Result<bool> read_index() {
    const Task& task = *task_;
    const ZarrGrid& grid = *task.grid;
    const std::uint64_t length = index_bytes(grid);
    if (length > task.stored()) return bad_shard("is shorter than its index", task);
    if (task.is_inline) {
      const auto size = static_cast<std::size_t>(length);
      const ByteSpan bytes =
          grid.is_index_first ? task.inline_bytes.first(size) : task.inline_bytes.last(size);
      index_.assign(bytes.begin(), bytes.end());
    } else {
      const std::size_t count = input_.size();
      index_.insert(index_.end(), input_.begin(), input_.end());
      use_input(count);
      if (need_.length > 0) return false;
    }
    const ByteSpan index(index_);
    if (grid.has_index_crc) {
      const ByteSpan said = index.last(4);
      if (crc32c_after(0, index.first(index.size() - 4)) != load_le<std::uint32_t>(said.data())) {
        return bad_shard("has an index that does not match its CRC-32C", task);
      }
    }
    // In the order of the bytes of the shard, whose axes may be in another.
    const std::size_t rank = grid.chunk.size();
    Numbers counts(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::uint32_t axis = grid.order[i];
      counts[i] = grid.chunk[axis] / grid.inner->chunk[axis];
    }
    const std::size_t before = tasks_.size();
    const std::uint64_t size = *chunk_bytes(*grid.inner, array().width);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (std::uint64_t number = 0; number < chunks_in(grid); ++number) {
      const std::byte* const entry = index.data() + 16 * static_cast<std::size_t>(number);
      const auto offset = load_le<std::uint64_t>(entry);
      const auto bytes = load_le<std::uint64_t>(entry + 8);
      Task inner{.grid = grid.inner.get(), .origin = task.origin};
      const Numbers position = grid_position(counts, number);
      for (std::size_t i = 0; i < rank; ++i) {
        inner.origin[grid.order[i]] += position[i] * grid.inner->chunk[grid.order[i]];
      }
      // Beyond the array there is nothing to make.
      if (run_of(inner) == 0) continue;
      inner.is_absent = offset == kAbsent && bytes == kAbsent;
      if (inner.is_absent && !is_direct_) continue;
      inner.absent_bytes = run_of(inner);
      if (!inner.is_absent) {
        if (!range_fits(offset, bytes, task.stored())) {
          return bad_shard("has an index that leads out of it", task);
        }
        if (bytes > 0) places.emplace_back(offset, bytes);
        inner.is_inline = task.is_inline;
        if (task.is_inline) {
          inner.inline_bytes = task.inline_bytes.subspan(static_cast<std::size_t>(offset),
                                                         static_cast<std::size_t>(bytes));
        } else {
          inner.extent = {task.extent.file, task.extent.offset + offset, bytes};
        }
      }
      tasks_.push_back(std::move(inner));
    }
    // Stops a few bytes that stand for thousands of chunks, each far larger than the array. Two
    // chunks in one place are legal.
    const std::uint64_t all = checked_mul(size, places.size()).value_or(~std::uint64_t{0});
    if (all / kMostForByte > covered_bytes(std::move(places))) {
      return bad_shard("has too few bytes for its chunks", task);
    }
    std::reverse(tasks_.begin() + static_cast<std::ptrdiff_t>(before), tasks_.end());
    return true;
  }

  // Goes on with a chunk of elements, or one that is not there. True once it is complete.
  Result<bool> make_chunk() {
    if (task_->is_absent) {
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(run_left_, out_.size()));
      fill_with(out_.first(count), array().fill, task_->absent_bytes - run_left_);
      use_output(count);
      run_left_ -= count;
      return run_left_ == 0;
    }
    // What lies beyond the array's edge is made, too, and dropped.
    std::byte beyond[4096];
    for (;;) {
      const bool is_beyond = is_direct_ && run_left_ == 0;
      MutableByteSpan to = is_beyond    ? MutableByteSpan(beyond)
                           : is_direct_ ? out_.first(static_cast<std::size_t>(
                                              std::min<std::uint64_t>(run_left_, out_.size())))
                                        : MutableByteSpan(chunk_).subspan(chunk_made_);
      const ByteSpan from = task_->is_inline ? task_->inline_bytes.subspan(inline_done_) : input_;
      const auto progress = unpacker_->run(from, to);
      if (!progress) {
        auto failed = progress.error();
        if (!task_->is_inline) failed.offset = task_->extent.offset;
        return tl::unexpected<Error>(std::move(failed));
      }
      if (task_->is_inline) {
        inline_done_ += progress->taken;
      } else {
        use_input(progress->taken);
      }
      if (is_direct_ && !is_beyond) {
        use_output(progress->made);
        run_left_ -= progress->made;
      } else if (!is_direct_) {
        chunk_made_ += progress->made;
      }
      if (unpacker_->is_complete()) break;
      if (progress->taken > 0 || progress->made > 0) continue;
      if (unpacker_->left() > 0 && !task_->is_inline && input_.empty()) return false;
      if (is_direct_ && !is_beyond && out_.empty()) return false;
      break;  // It stands still, and finish() says why.
    }
    if (auto ok = unpacker_->finish(); !ok) {
      if (!task_->is_inline) ok.error().offset = task_->extent.offset;
      return propagate(ok);
    }
    if (!is_direct_) place(*task_);
    return true;
  }

  // Copies the elements of chunk_ to their places in row_.
  void place(const Task& task) {
    const ZarrArray& a = array();
    const ZarrGrid& grid = *task.grid;
    const std::size_t rank = grid.chunk.size();
    // Along the axes of the chunk's bytes, the fastest last; steps in bytes of both.
    struct Axis {
      std::uint64_t count, from, to;
    };
    std::vector<Axis> axes(rank);
    Numbers step(rank);
    std::uint64_t all = a.width;
    for (std::size_t i = rank; i-- > 0;) {
      step[i] = all;
      all *= i == 0 ? 1 : a.shape[i];
    }
    std::uint64_t to = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      to += (task.origin[i] - (i == 0 ? row_first_ : 0)) * step[i];
    }
    std::uint64_t from_step = a.width;
    for (std::size_t i = rank; i-- > 0;) {
      const std::uint32_t axis = grid.order[i];
      axes[i] = {reach(task, axis), from_step, step[axis]};
      if (axes[i].count == 0) return;
      from_step *= grid.chunk[axis];
    }
    // Neighbours in both are copied together.
    std::uint64_t run = a.width;
    while (!axes.empty() && axes.back().from == run && axes.back().to == run) {
      const Axis last = axes.back();
      axes.pop_back();
      run *= last.count;
      if (!axes.empty() && axes.back().from != run) break;
    }
    Numbers at(axes.size());
    std::uint64_t from = 0;
    for (;;) {
      std::memcpy(row_.data() + to, chunk_.data() + from, static_cast<std::size_t>(run));
      std::size_t i = axes.size();
      for (; i > 0; --i) {
        const Axis& axis = axes[i - 1];
        from += axis.from;
        to += axis.to;
        if (++at[i - 1] < axis.count) break;
        at[i - 1] = 0;
        from -= axis.from * axis.count;
        to -= axis.to * axis.count;
      }
      if (i == 0) return;
    }
  }

  const std::shared_ptr<const std::vector<ZarrPart>> parts_;
  const std::uint64_t length_;
  std::uint64_t made_ = 0;
  // Of the call of feed().
  ByteSpan input_;
  MutableByteSpan out_;
  Extent need_ = {};
  // The part, the row of its chunks, and the tasks of that, the next one last.
  std::size_t part_ = 0;
  bool is_in_part_ = false;
  bool is_direct_ = false;  // chunks go straight to the output
  // Of chunks, or single chunks if they go straight to the output.
  std::uint64_t rows_ = 0;
  std::uint64_t next_row_ = 0;
  std::size_t next_chunk_ = 0;
  bool is_in_row_ = false;
  std::uint64_t row_first_ = 0;  // its first index along the first axis
  std::vector<std::byte> row_;
  std::size_t row_begin_ = 0;
  std::vector<Task> tasks_;
  // The chunk that is being made.
  std::optional<Task> task_;
  std::size_t inline_done_ = 0;
  std::vector<std::byte> index_;
  std::optional<ZarrUnpacker> unpacker_;
  std::uint64_t run_left_ = 0;
  std::vector<std::byte> chunk_;
  std::size_t chunk_made_ = 0;
};

}  // namespace

std::uint64_t covered_bytes(std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches) {
  std::sort(stretches.begin(), stretches.end());
  std::uint64_t covered = 0;
  std::uint64_t end = 0;
  for (const auto& [offset, bytes] : stretches) {
    const std::uint64_t last = offset + bytes;  // of a stretch that lies in a file
    if (last > end) covered += last - std::max(offset, end);
    end = std::max(end, last);
  }
  return covered;
}

ZarrMaker::ZarrMaker(std::vector<ZarrPart> parts, std::shared_ptr<const void> keeper)
    : parts_(std::make_shared<const std::vector<ZarrPart>>(std::move(parts))),
      keeper_(std::move(keeper)) {}

std::unique_ptr<MakingMachine> ZarrMaker::start(MutableByteSpan out) const {
  return std::make_unique<WholeMachine>(stream(out.size()), out);
}

std::unique_ptr<MakingStream> ZarrMaker::stream(std::uint64_t length) const {
  return std::make_unique<ZarrStream>(parts_, length);
}

std::optional<std::uint64_t> zarr_working_bytes(const ZarrArray& array) {
  if (are_runs(array)) return 0;
  const ZarrGrid* grid = &array.grid;
  while (grid->inner) grid = grid->inner.get();
  const auto chunk = chunk_bytes(*grid, array.width);
  std::uint64_t row = array.bytes();
  if (!array.shape.empty() && array.shape[0] > array.grid.chunk[0]) {
    row = row / array.shape[0] * array.grid.chunk[0];
  }
  return chunk ? checked_add(*chunk, row) : std::nullopt;
}

}  // namespace espalier
