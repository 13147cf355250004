#include "espalier/native/made_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/native/huge_pages.h"

namespace espalier {
namespace {

// Bytes read at once for a maker when its file is not mapped.
constexpr std::uint64_t kFeedBytes = std::uint64_t{4} << 20;
// What a stream is made in.
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
// The end of a file that is kept: threads read its chunks in almost their order.
constexpr std::uint64_t kKeptOfFile = std::uint64_t{32} << 20;
// Passes over a file before all of it is kept. Several commands need two.
constexpr unsigned kMostPasses = 4;

// A stream, and the files that it needs.
class Run {
 public:
  Run(std::unique_ptr<MakingStream> stream, const Source& files)
      : stream_(std::move(stream)), files_(files) {}

  // Makes the next bytes into `out`; how many. 0 if no more can be made, or if `out` is empty: then
  // what is left of the input is taken.
  Result<std::size_t> make(MutableByteSpan out) {
    for (;;) {
      const bool has_needs = !stream_->needs().empty();
      const Extent need = has_needs ? stream_->needs().front() : Extent{};
      const auto input = has_needs ? input_at(need) : Result<ByteSpan>(ByteSpan());
      if (!input) return propagate(input);
      const auto made = stream_->feed({need.file, need.offset, input->size()}, *input, out);
      if (!made || *made > 0) return made;
      const auto needs = stream_->needs();
      if (needs.empty()) return std::size_t{0};
      if (needs.front().offset == need.offset && needs.front().file == need.file) {
        return fail(ErrorCode::kInvalidArgument, "a file cannot be made: its maker stands still");
      }
    }
  }

  Result<void> finish() {
    if (auto rest = make({}); !rest) return propagate(rest);
    return stream_->finish();
  }

 private:
  // A beginning of the extent. Most of what was read and not used comes again.
  Result<ByteSpan> input_at(const Extent& need) {
    const std::uint64_t end = read_.offset + read_.length;
    if (read_.file != need.file || need.offset < read_.offset || need.offset >= end) {
      read_ = {need.file, need.offset, std::min(need.length, kFeedBytes)};
      scratch_.resize(static_cast<std::size_t>(read_.length));
      const auto bytes = files_.read(read_, scratch_);
      if (!bytes) return bytes;
      if (auto ok = check_answer(read_, *bytes); !ok) return propagate(ok);
      bytes_ = *bytes;
    }
    const auto from = bytes_.subspan(static_cast<std::size_t>(need.offset - read_.offset));
    return from.first(static_cast<std::size_t>(std::min<std::uint64_t>(from.size(), need.length)));
  }

  const std::unique_ptr<MakingStream> stream_;
  const Source& files_;
  std::vector<std::byte> scratch_;
  Extent read_;
  ByteSpan bytes_;  // at `read_`
};

class MadeSource final : public Source, private MadeMemory::User {
 public:
  MadeSource(const FileEntry& entry, std::shared_ptr<const Source> files,
             std::shared_ptr<MadeMemory> memory)
      : entry_(entry), files_(std::move(files)), memory_(std::move(memory)) {}
  MadeSource(const MadeSource&) = delete;
  MadeSource& operator=(const MadeSource&) = delete;
  ~MadeSource() override { memory_->leave(*this); }

  std::uint64_t size() const override { return entry_.length; }

  void announce(const Extent& all) const override {
    if (all.offset + all.length == entry_.length) is_end_coming_ = true;
  }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (!range_fits(extent.offset, extent.length, entry_.length)) {
      return fail(ErrorCode::kTruncated, "the unpacked file ends before the requested bytes",
                  extent.offset);
    }
    const auto length = static_cast<std::size_t>(extent.length);
    // It is const because reads look like those of any file.
    auto& self = const_cast<MadeSource&>(*this);
    const std::unique_lock lock(mutex_);
    if (auto ok = self.reach(extent); !ok) return propagate(ok);
    if (whole_) return ByteSpan(whole_.get() + extent.offset, length);
    if (scratch.size() < length) {
      return fail(ErrorCode::kInvalidArgument, "there is no memory to read a made file into");
    }
    copy_kept(extent.offset, scratch.first(length));
    memory_->use(self, blocks_.size() * kBlockBytes);
    return ByteSpan(scratch.first(length));
  }

 private:
  using Block = std::unique_ptr<std::byte[]>;

  // Makes the file until it has `extent`.
  Result<void> reach(const Extent& extent) {
    if (problem_) return tl::unexpected<Error>(*problem_);
    if (whole_) return {};
    auto ok = make_until(extent);
    if (!ok && ok.error().code != ErrorCode::kCancelled) {
      problem_ = ok.error();
      drop();
    }
    return ok;
  }

  Result<void> make_until(const Extent& extent) {
    if (!run_ || extent.offset < first_) {
      if (auto ok = begin(); !ok || whole_) return ok;
    }
    if (entry_.length > kKeptOfFile && !is_checked_ && !is_end_coming_) {
      if (auto ok = check_made_file(entry_, *files_, [](auto) { return Result<void>{}; }); !ok) {
        return ok;
      }
      is_checked_ = true;
    }
    const std::uint64_t end =
        entry_.length <= kKeptOfFile ? entry_.length : extent.offset + extent.length;
    while (made_ < end) {
      const auto made = run_->make(room(extent.offset));
      if (!made) return propagate(made);
      if (*made == 0) break;
      made_ += *made;
    }
    if (made_ < end || made_ == entry_.length) {
      if (is_finished_) return {};
      if (auto ok = run_->finish(); !ok) return ok;
      is_finished_ = is_checked_ = true;
    }
    return {};
  }

  // Begins a pass, or makes all of the file.
  Result<void> begin() {
    drop();
    const bool is_long = entry_.length > kKeptOfFile;
    auto stream =
        is_long && ++passes_ > kMostPasses ? nullptr : entry_.maker->stream(entry_.length);
    if (!stream) return make_whole();
    run_.emplace(std::move(stream), *files_);
    return {};
  }

  // Where the next bytes go. Gives up blocks that no read is likely to need; not from `needed` on.
  MutableByteSpan room(std::uint64_t needed) {
    const std::uint64_t kept = made_ - std::min(made_, kKeptOfFile);
    while (!blocks_.empty() && first_ + kBlockBytes <= std::min(needed, kept)) {
      spare_ = std::move(blocks_.front());
      blocks_.pop_front();
      first_ += kBlockBytes;
    }
    const auto used = static_cast<std::size_t>(made_ - first_);
    if (used == blocks_.size() * kBlockBytes) {
      blocks_.push_back(spare_ ? std::move(spare_)
                               : std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
    }
    return MutableByteSpan(blocks_.back().get(), kBlockBytes).subspan(used % kBlockBytes);
  }

  void copy_kept(std::uint64_t offset, MutableByteSpan out) const {
    auto at = static_cast<std::size_t>(offset - first_);
    while (!out.empty()) {
      const std::size_t in_block = at % kBlockBytes;
      const std::size_t length = std::min(out.size(), kBlockBytes - in_block);
      std::memcpy(out.data(), blocks_[at / kBlockBytes].get() + in_block, length);
      out = out.subspan(length);
      at += length;
    }
  }

  void drop() {
    run_.reset();
    blocks_.clear();
    spare_.reset();
    first_ = made_ = 0;
    is_finished_ = false;
  }

  bool forget() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    // A pass that is under way goes on from where it is.
    if (is_finished_) {
      drop();
    } else {
      blocks_.clear();
      spare_.reset();
      first_ = made_;
    }
    return true;
  }

  Result<void> make_whole() {
    if (auto ok = memory_->reserve(entry_.length); !ok) return ok;
    auto made = fill();
    if (!made) {
      memory_->give_back(entry_.length);
      return propagate(made);
    }
    whole_ = std::move(*made);
    return {};
  }

  Result<std::shared_ptr<std::byte[]>> fill() const {
    auto memory = large_memory(entry_.length);
    if (!memory) {
      return fail(ErrorCode::kOutOfMemory,
                  "cannot allocate " + counted(entry_.length, "byte") + " to unpack a file");
    }
    // Zero the memory: a maker that skips bytes must not expose old contents.
    std::memset(memory.get(), 0, static_cast<std::size_t>(entry_.length));
    const auto machine =
        entry_.maker->start({memory.get(), static_cast<std::size_t>(entry_.length)});
    std::vector<std::byte> scratch;
    while (!machine->needs().empty()) {
      Extent extent = machine->needs().front();
      extent.length = std::min(extent.length, kFeedBytes);
      scratch.resize(static_cast<std::size_t>(extent.length));
      const auto bytes = files_->read(extent, scratch);
      if (!bytes) return propagate(bytes);
      if (auto ok = check_answer(extent, *bytes); !ok) return propagate(ok);
      if (auto ok = machine->feed(extent, *bytes); !ok) return propagate(ok);
    }
    if (auto ok = machine->finish(); !ok) return propagate(ok);
    return memory;
  }

  const FileEntry entry_;
  const std::shared_ptr<const Source> files_;
  const std::shared_ptr<MadeMemory> memory_;
  mutable std::atomic<bool> is_end_coming_ = false;
  mutable std::mutex mutex_;  // of all below
  std::optional<Error> problem_;
  std::shared_ptr<std::byte[]> whole_;
  // Or the pass that is under way: the file from `first_` to `made_`.
  std::optional<Run> run_;
  std::deque<Block> blocks_;
  Block spare_;
  std::uint64_t first_ = 0;
  std::uint64_t made_ = 0;
  bool is_finished_ = false;
  bool is_checked_ = false;
  unsigned passes_ = 0;
};

}  // namespace

std::shared_ptr<const Source> make_source(const FileEntry& entry,
                                          std::shared_ptr<const Source> files,
                                          std::shared_ptr<MadeMemory> memory) {
  return std::make_shared<const MadeSource>(entry, std::move(files), std::move(memory));
}

Result<void> check_made_file(const FileEntry& entry, const Source& files,
                             const std::function<Result<void>(std::uint64_t)>& made) {
  Run run(entry.maker->stream(entry.length), files);
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  for (;;) {
    const auto bytes = run.make({scratch.get(), kBlockBytes});
    if (!bytes) return propagate(bytes);
    if (*bytes == 0) return run.finish();
    if (auto ok = made(*bytes); !ok) return ok;
  }
}

}  // namespace espalier
