#include "espalier/native/made_source.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/native/huge_pages.h"

namespace espalier {
namespace {

// Bytes fed to a maker at once when its file is not mapped.
constexpr std::uint64_t kFeedBytes = std::uint64_t{4} << 20;

class MadeSource : public Source {
 public:
  MadeSource(const FileEntry& entry, std::shared_ptr<const Source> files,
             std::shared_ptr<MadeBudget> budget)
      : entry_(entry), files_(std::move(files)), budget_(std::move(budget)) {}

  std::uint64_t size() const override { return entry_.length; }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan) const override {
    auto all = bytes();
    if (!all) return all;
    if (!range_fits(extent.offset, extent.length, all->size())) {
      return fail(ErrorCode::kTruncated, "the unpacked file ends before the requested bytes",
                  extent.offset);
    }
    return all->subspan(static_cast<std::size_t>(extent.offset),
                        static_cast<std::size_t>(extent.length));
  }

 private:
  Result<ByteSpan> bytes() const {
    const std::lock_guard lock(mutex_);
    if (!made_) made_ = make();
    if (!*made_) return tl::unexpected<Error>(made_->error());
    return ByteSpan(made_->value().get(), static_cast<std::size_t>(entry_.length));
  }

  Result<std::shared_ptr<std::byte[]>> make() const {
    std::uint64_t left = budget_->load();
    do {
      if (entry_.length > left) {
        return fail(ErrorCode::kLimitExceeded,
                    "this part of the checkpoint takes " + counted(entry_.length, "byte") +
                        " once it is unpacked, and Limits::made_bytes leaves " +
                        std::to_string(left));
      }
    } while (!budget_->compare_exchange_weak(left, left - entry_.length));
    auto made = fill();
    if (!made) budget_->fetch_add(entry_.length);
    return made;
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
  const std::shared_ptr<MadeBudget> budget_;
  mutable std::mutex mutex_;
  mutable std::optional<Result<std::shared_ptr<std::byte[]>>> made_;
};

}  // namespace

std::shared_ptr<const Source> make_source(const FileEntry& entry,
                                          std::shared_ptr<const Source> files,
                                          std::shared_ptr<MadeBudget> budget) {
  return std::make_shared<const MadeSource>(entry, std::move(files), std::move(budget));
}

}  // namespace espalier
