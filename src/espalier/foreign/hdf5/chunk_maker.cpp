#include "espalier/foreign/hdf5/chunk_maker.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/foreign/hdf5/chunk_filters.h"
#include "espalier/foreign/hdf5/chunk_index.h"
#include "espalier/foreign/hdf5/pieces.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

// Neighbouring chunks of up to so many bytes are read at once.
constexpr std::uint64_t kRunBytes = std::uint64_t{1} << 20;
// An index is gone through once for each of its levels, and so much more.
constexpr std::uint64_t kWork = 32;

class ChunkMachine final : public MakingMachine {
 public:
  ChunkMachine(std::shared_ptr<const Hdf5Dataset> dataset, const Hdf5Layout& layout,
               std::uint32_t file, std::uint64_t file_bytes, std::uint64_t most,
               MutableByteSpan out)
      : dataset_(std::move(dataset)),
        layout_(layout),
        file_(file),
        pieces_(file_bytes, most),
        work_(kWork * (std::min(file_bytes, most) + kRunBytes)),
        out_(out) {
    if (auto ok = go_on(); !ok) error_ = ok.error();
  }

  std::span<const Extent> needs() const override { return std::span(needs_).subspan(next_); }

  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    if (error_) return tl::unexpected<Error>(*error_);
    if (auto ok = check_fed(extent, bytes); !ok) return ok;
    if (next_ == needs_.size() || extent.file != file_ || extent.offset != needs_[next_].offset ||
        extent.length > needs_[next_].length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    auto ok = is_indexed_ ? take_run(bytes) : take_index(bytes);
    if (!ok) error_ = ok.error();
    return ok;
  }

  Result<void> finish() override {
    if (error_) return tl::unexpected<Error>(*error_);
    if (next_ < needs_.size()) {
      return fail(ErrorCode::kIncomplete, "more bytes are needed to put the array together");
    }
    return {};
  }

 private:
  // Reads the index with what has come, and wants more of it, or the chunks.
  Result<void> go_on() {
    needs_.clear();
    next_ = 0;
    to_.clear();
    Hdf5Reading reading(pieces_, layout_, work_);
    if (dataset_->place == Hdf5Dataset::Place::kChunked) {
      chunks_ = read_chunk_index(reading, *dataset_);
    }
    if (!reading.ok()) return tl::unexpected<Error>(*reading.error());
    if (!reading.is_complete()) {
      return pieces_.take_wants([&](std::uint64_t offset, MutableByteSpan to) {
        needs_.push_back({file_, offset, to.size()});
        to_.push_back(to);
      });
    }
    is_indexed_ = true;
    fill();
    // Runs of neighbours.
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const Hdf5Chunk& chunk = chunks_[i];
      if (needs_.empty() || chunk.address != end ||
          needs_.back().length + chunk.bytes > kRunBytes) {
        needs_.push_back({file_, layout_.base + chunk.address, 0});
        first_.push_back(i);
      }
      needs_.back().length += chunk.bytes;
      end = chunk.address + chunk.bytes;
    }
    first_.push_back(chunks_.size());
    return {};
  }

  Result<void> take_index(ByteSpan bytes) {
    MutableByteSpan& to = to_[next_];
    std::copy(bytes.begin(), bytes.end(), to.begin());
    to = to.subspan(bytes.size());
    use(bytes.size());
    return next_ == needs_.size() ? go_on() : Result<void>{};
  }

  void use(std::size_t bytes) {
    needs_[next_].offset += bytes;
    needs_[next_].length -= bytes;
    if (needs_[next_].length == 0) ++next_;
  }

  Result<void> take_run(ByteSpan bytes) {
    const std::size_t run = next_;
    const bool is_last = bytes.size() == needs_[run].length;
    if (!is_last || !held_.empty()) held_.insert(held_.end(), bytes.begin(), bytes.end());
    if (is_last) {
      ByteSpan rest = held_.empty() ? bytes : ByteSpan(held_);
      for (std::size_t i = first_[run]; i < first_[run + 1]; ++i) {
        const auto size = static_cast<std::size_t>(chunks_[i].bytes);
        if (auto ok = put(chunks_[i], rest.first(size)); !ok) return ok;
        rest = rest.subspan(size);
      }
      held_.clear();
    }
    use(bytes.size());
    return {};
  }

  void fill() {
    std::uint64_t all = 1;
    for (const std::uint64_t count : chunk_grid(*dataset_)) all *= count;
    const bool is_chunked = dataset_->place == Hdf5Dataset::Place::kChunked;
    if (is_chunked && all == chunks_.size()) return;
    const std::vector<std::byte>& one = dataset_->fill;
    if (one.empty()) {
      std::fill(out_.begin(), out_.end(), std::byte{0});
      return;
    }
    for (std::size_t at = 0; at < out_.size(); at += one.size()) {
      std::copy(one.begin(), one.end(), out_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  Result<void> put(const Hdf5Chunk& chunk, ByteSpan stored) {
    const auto bytes = filters_.undo(dataset_->filters, chunk.mask, stored,
                                     dataset_->chunking.bytes, layout_.base + chunk.address);
    if (!bytes) return propagate(bytes);
    scatter(chunk.number, *bytes);
    return {};
  }

  // Copies the rows of a chunk to where they belong in the array: what reaches beyond it is left
  // out.
  void scatter(std::uint64_t number, ByteSpan bytes) {
    const auto& shape = dataset_->space.shape;
    const auto& chunk = dataset_->chunking.shape;
    const std::size_t rank = shape.size();
    const auto grid = chunk_grid(*dataset_);
    std::vector<std::uint64_t> count(rank);    // elements of the chunk in the array
    std::vector<std::uint64_t> to_step(rank);  // bytes
    std::vector<std::uint64_t> from_step(rank);
    std::uint64_t to = 0;
    std::uint64_t to_bytes = dataset_->element_bytes;
    std::uint64_t from_bytes = dataset_->element_bytes;
    for (std::size_t i = rank; i-- > 0;) {
      const std::uint64_t begin = number % grid[i] * chunk[i];
      number /= grid[i];
      count[i] = std::min(chunk[i], shape[i] - begin);
      to_step[i] = to_bytes;
      from_step[i] = from_bytes;
      to += begin * to_bytes;
      to_bytes *= shape[i];
      from_bytes *= chunk[i];
    }
    // The axes that both have as a whole are one run, with the axis before them.
    std::size_t axis = rank - 1;
    while (axis > 0 && count[axis] == shape[axis] && count[axis] == chunk[axis]) --axis;
    const auto run = static_cast<std::size_t>(count[axis] * to_step[axis]);
    std::vector<std::uint64_t> at(axis);
    std::uint64_t from = 0;
    for (;;) {
      std::memcpy(out_.data() + to, bytes.data() + from, run);
      std::size_t i = axis;
      for (; i > 0; --i) {
        to += to_step[i - 1];
        from += from_step[i - 1];
        if (++at[i - 1] < count[i - 1]) break;
        to -= count[i - 1] * to_step[i - 1];
        from -= count[i - 1] * from_step[i - 1];
        at[i - 1] = 0;
      }
      if (i == 0) return;
    }
  }

  const std::shared_ptr<const Hdf5Dataset> dataset_;
  const Hdf5Layout layout_;
  const std::uint32_t file_;
  Hdf5Pieces pieces_;
  std::uint64_t work_;
  const MutableByteSpan out_;
  std::optional<Error> error_;
  bool is_indexed_ = false;
  std::vector<Extent> needs_;
  std::size_t next_ = 0;
  std::vector<MutableByteSpan> to_;  // where the needs of an index go
  std::vector<Hdf5Chunk> chunks_;
  std::vector<std::size_t> first_;  // the first chunk of each run, and the end
  std::vector<std::byte> held_;     // the beginning of a run
  Hdf5ChunkFilters filters_;
};

}  // namespace

std::unique_ptr<MakingMachine> Hdf5ChunkMaker::start(MutableByteSpan out) const {
  return std::make_unique<ChunkMachine>(dataset_, layout_, file_, file_bytes_, most_, out);
}

}  // namespace espalier
