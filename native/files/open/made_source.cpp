#include "files/open/made_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/format/file_set.h"
#include "files/open/kept_end.h"
#include "files/os/huge_pages.h"

namespace espalier {
namespace {

// Bytes read at once for a maker when its file is not mapped.
constexpr std::uint64_t kFeedBytes = std::uint64_t{4} << 20;
// What check_made_file() makes at once.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;
// Files of up to so many bytes are kept as a whole, and the end of longer ones.
constexpr std::uint64_t kKeptWhole = std::uint64_t{32} << 20;
constexpr std::uint64_t kKeptEnd = std::uint64_t{4} << 20;
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
      auto made = stream_->feed({need.file, need.offset, input->size()}, *input, out);
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
      auto bytes = files_.read(read_, scratch_);
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
      : entry_(entry),
        files_(std::move(files)),
        memory_(std::move(memory)),
        kept_(entry.length <= kKeptWhole ? kKeptWhole : kKeptEnd) {}
  MadeSource(const MadeSource&) = delete;
  MadeSource& operator=(const MadeSource&) = delete;
  ~MadeSource() override { memory_->leave(*this); }

  std::uint64_t size() const override { return entry_.length; }

  void announce(const Extent& all) const override {
    coming_ = all.offset + all.length == entry_.length ? Coming::kEnd : Coming::kPart;
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
    self.kept_.copy(extent.offset, scratch.first(length));
    memory_->use(self, kept_.memory());
    return ByteSpan(scratch.first(length));
  }

 private:
  enum class Coming : std::uint8_t { kUnknown, kPart, kEnd };

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
    const std::uint64_t made =
        std::max(extent.offset, std::min(extent.offset + extent.length, kept_.end()));
    if (!run_ || !kept_.has({0, extent.offset, made - extent.offset})) {
      if (auto ok = begin(); !ok || whole_) return ok;
    }
    const Coming coming = coming_.exchange(Coming::kUnknown);
    if (coming != Coming::kUnknown) is_end_coming_ = coming == Coming::kEnd;
    if (entry_.length > kKeptWhole && !is_checked_ && !is_end_coming_) {
      if (auto ok = check_made_file(entry_, *files_, [](auto) { return Result<void>{}; }); !ok) {
        return ok;
      }
      is_checked_ = true;
    }
    const std::uint64_t end =
        entry_.length <= kKeptWhole ? entry_.length : extent.offset + extent.length;
    while (kept_.end() < end) {
      const auto more = run_->make(kept_.room(extent.offset));
      if (!more) return propagate(more);
      if (*more == 0) break;
      kept_.add(*more);
    }
    if (is_finished_ || (kept_.end() >= end && kept_.end() < entry_.length)) return {};
    if (auto ok = run_->finish(); !ok) return ok;
    is_finished_ = is_checked_ = true;
    return {};
  }

  // Begins a pass, or makes all of the file.
  Result<void> begin() {
    drop();
    const bool is_long = entry_.length > kKeptWhole;
    auto stream =
        is_long && ++passes_ > kMostPasses ? nullptr : entry_.maker->stream(entry_.length);
    if (!stream) return make_whole();
    run_.emplace(std::move(stream), *files_);
    return {};
  }

  void drop() {
    run_.reset();
    kept_.clear();
    is_finished_ = is_end_coming_ = false;
  }

  bool forget() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    // A pass that is under way goes on from where it is.
    if (is_finished_) {
      drop();
    } else {
      kept_.give_up_read();
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
  // What announce() told last, until the next read.
  mutable std::atomic<Coming> coming_ = Coming::kUnknown;
  mutable std::mutex mutex_;  // of all below
  std::optional<Error> problem_;
  std::shared_ptr<std::byte[]> whole_;
  // Or the pass that is under way.
  std::optional<Run> run_;
  KeptEnd kept_;
  bool is_finished_ = false;
  bool is_checked_ = false;
  bool is_end_coming_ = false;  // in this pass
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
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(kPartBytes);
  for (;;) {
    const auto bytes = run.make({scratch.get(), kPartBytes});
    if (!bytes) return propagate(bytes);
    if (*bytes == 0) return run.finish();
    if (auto ok = made(*bytes); !ok) return ok;
  }
}

}  // namespace espalier
