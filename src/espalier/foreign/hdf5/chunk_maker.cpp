#include "espalier/foreign/hdf5/chunk_maker.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/foreign/common/whole_machine.h"
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

class ChunkStream final : public MakingStream {
 public:
  ChunkStream(std::shared_ptr<const Hdf5Dataset> dataset, const Hdf5Layout& layout,
              std::uint32_t file, std::uint64_t file_bytes, std::uint64_t most)
      : dataset_(std::move(dataset)),
        layout_(layout),
        file_(file),
        grid_(chunk_grid(*dataset_)),
        pieces_(file_bytes, most),
        work_(kWork * (std::min(file_bytes, most) + kRunBytes)) {
    if (auto ok = go_on(); !ok) error_ = ok.error();
  }

  std::span<const Extent> needs() const override { return std::span(needs_).subspan(next_); }

  Result<std::size_t> feed(const Extent& extent, ByteSpan bytes, MutableByteSpan out) override {
    if (error_) return tl::unexpected<Error>(*error_);
    if (auto ok = check_fed(extent, bytes); !ok) return propagate(ok);
    const bool is_next = next_ < needs_.size() && extent.file == file_ &&
                         extent.offset == needs_[next_].offset &&
                         extent.length <= needs_[next_].length;
    if (!is_next && !bytes.empty()) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    std::size_t made = give(out);
    // What is left of a band must go first, as the next one takes its place.
    if (!is_indexed_ || given_ == band_.size()) {
      auto ok = is_indexed_ ? take_run(bytes) : take_index(bytes);
      if (!ok) {
        error_ = ok.error();
        return propagate(ok);
      }
      made += give(out.subspan(made));
    }
    return made;
  }

  Result<void> finish() override {
    if (error_) return tl::unexpected<Error>(*error_);
    if (next_ < needs_.size() || done_ < dataset_->bytes) {
      return fail(ErrorCode::kIncomplete, "more bytes are needed to put the array together");
    }
    return {};
  }

 private:
  bool is_chunked() const { return dataset_->place == Hdf5Dataset::Place::kChunked; }

  // Reads the index with what has come, and wants more of it, or the chunks.
  Result<void> go_on() {
    needs_.clear();
    next_ = 0;
    to_.clear();
    Hdf5Reading reading(pieces_, layout_, work_);
    if (is_chunked()) chunks_ = read_chunk_index(reading, *dataset_);
    if (!reading.ok()) return tl::unexpected<Error>(*reading.error());
    if (!reading.is_complete()) {
      return pieces_.take_wants([&](std::uint64_t offset, MutableByteSpan to) {
        needs_.push_back({file_, offset, to.size()});
        to_.push_back(to);
      });
    }
    is_indexed_ = true;
    // A band is what one row of chunks covers: all that is needed of the array at a time.
    const std::uint64_t rows = is_chunked() ? dataset_->space.shape[0] : 1;
    band_rows_ = is_chunked() ? std::min(dataset_->chunking.shape[0], rows) : 1;
    row_bytes_ = rows == 0 ? 0 : dataset_->bytes / rows;
    for (std::size_t i = 1; i < grid_.size(); ++i) band_chunks_ *= grid_[i];
    std::stable_sort(chunks_.begin(), chunks_.end(), [&](const Hdf5Chunk& a, const Hdf5Chunk& b) {
      return a.number / band_chunks_ < b.number / band_chunks_;
    });
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const Hdf5Chunk& chunk = chunks_[i];
      const bool is_same_band =
          i > 0 && chunk.number / band_chunks_ == chunks_[i - 1].number / band_chunks_;
      if (!is_same_band || chunk.address != end || needs_.back().length + chunk.bytes > kRunBytes) {
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
    if (bytes.empty()) return {};
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

  // Of the band that comes next.
  std::uint64_t band() const { return done_ / (band_rows_ * row_bytes_); }
  bool has_more() const {
    return next_ < needs_.size() && chunks_[first_[next_]].number / band_chunks_ == band();
  }

  Result<void> take_run(ByteSpan bytes) {
    if (done_ == dataset_->bytes) return {};
    if (!is_begun_) begin_band();
    if (!bytes.empty() && has_more()) {
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
    }
    if (!has_more()) given_ = 0;
    return {};
  }

  // Fills a band, unless its chunks cover all of it.
  void begin_band() {
    is_begun_ = true;
    const std::uint64_t size = std::min(band_rows_ * row_bytes_, dataset_->bytes - done_);
    const std::vector<std::byte>& one = dataset_->fill;
    band_.assign(static_cast<std::size_t>(size), std::byte{0});
    given_ = band_.size();
    if (one.empty()) return;
    for (std::size_t at = 0; at < band_.size(); at += one.size()) {
      std::copy(one.begin(), one.end(), band_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  // Hands out what is ready, and goes over to the next bands as long as they need nothing.
  std::size_t give(MutableByteSpan out) {
    std::size_t made = 0;
    while (is_indexed_ && made < out.size()) {
      const std::size_t size = std::min(out.size() - made, band_.size() - given_);
      std::copy_n(band_.begin() + static_cast<std::ptrdiff_t>(given_), size,
                  out.begin() + static_cast<std::ptrdiff_t>(made));
      made += size;
      given_ += size;
      done_ += size;
      if (size > 0 && given_ == band_.size()) is_begun_ = false;
      if (size > 0) continue;
      if (done_ == dataset_->bytes || has_more()) break;
      begin_band();
      given_ = 0;
    }
    return made;
  }

  Result<void> put(const Hdf5Chunk& chunk, ByteSpan stored) {
    const auto bytes = filters_.undo(dataset_->filters, chunk.mask, stored,
                                     dataset_->chunking.bytes, layout_.base + chunk.address);
    if (!bytes) return propagate(bytes);
    scatter(chunk.number, *bytes);
    return {};
  }

  // Copies the rows of a chunk to where they belong in the band: what reaches beyond it is left
  // out.
  void scatter(std::uint64_t number, ByteSpan bytes) {
    const auto& shape = dataset_->space.shape;
    const auto& chunk = dataset_->chunking.shape;
    const std::size_t rank = shape.size();
    std::vector<std::uint64_t> count(rank);    // elements of the chunk in the array
    std::vector<std::uint64_t> to_step(rank);  // bytes
    std::vector<std::uint64_t> from_step(rank);
    std::uint64_t to = 0;
    std::uint64_t to_bytes = dataset_->element_bytes;
    std::uint64_t from_bytes = dataset_->element_bytes;
    for (std::size_t i = rank; i-- > 0;) {
      const std::uint64_t begin = number % grid_[i] * chunk[i];
      number /= grid_[i];
      count[i] = std::min(chunk[i], shape[i] - begin);
      to_step[i] = to_bytes;
      from_step[i] = from_bytes;
      // Along the first axis, a band has one chunk.
      if (i > 0) to += begin * to_bytes;
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
      std::memcpy(band_.data() + to, bytes.data() + from, run);
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
  const std::vector<std::uint64_t> grid_;
  Hdf5Pieces pieces_;
  std::uint64_t work_;
  std::optional<Error> error_;
  bool is_indexed_ = false;
  std::vector<Extent> needs_;
  std::size_t next_ = 0;
  std::vector<MutableByteSpan> to_;  // where the needs of an index go
  std::vector<Hdf5Chunk> chunks_;    // by bands, then by address
  std::vector<std::size_t> first_;   // the first chunk of each run, and the end
  std::vector<std::byte> held_;      // the beginning of a run
  Hdf5ChunkFilters filters_;
  std::uint64_t band_rows_ = 1;
  std::uint64_t row_bytes_ = 0;
  std::uint64_t band_chunks_ = 1;
  // The band that is being made, or handed out from `given_` on.
  std::vector<std::byte> band_;
  std::size_t given_ = 0;
  bool is_begun_ = false;
  std::uint64_t done_ = 0;  // bytes of the array that were handed out
};

}  // namespace

std::unique_ptr<MakingMachine> Hdf5ChunkMaker::start(MutableByteSpan out) const {
  return std::make_unique<WholeMachine>(stream(out.size()), out);
}

std::unique_ptr<MakingStream> Hdf5ChunkMaker::stream(std::uint64_t) const {
  return std::make_unique<ChunkStream>(dataset_, layout_, file_, file_bytes_, most_);
}

bool Hdf5ChunkMaker::has_checksum() const {
  return std::any_of(
      dataset_->filters.begin(), dataset_->filters.end(),
      [](const Hdf5Filter& each) { return each.id == kHdf5Deflate || each.id == kHdf5Fletcher32; });
}

}  // namespace espalier
