#include "http/http_source.h"

#include <algorithm>
#include <new>
#include <utility>

#include "espalier/base/checked.h"
#include "files/os/out_of_memory.h"
#include "http/block_cache.h"

namespace espalier::http {
namespace {

class HttpSource : public Source {
 public:
  explicit HttpSource(std::unique_ptr<HttpFile> file)
      : file_(std::move(file)),
        blocks_(file_->head().size(), file_->size(),
                {.fetch = [this](const ByteRange& range) { return file_->get(range); },
                 .is_cancelled = [this] { return file_->is_cancelled(); }}) {}

  std::uint64_t size() const override { return file_->size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (scratch.size() > extent.length) {
      scratch = scratch.first(static_cast<std::size_t>(extent.length));
    }
    if (auto ok = copy(extent, scratch); !ok) return propagate(ok);
    return ByteSpan(scratch);
  }

  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    if (extent.file != 0 || out.size() != extent.length) {
      return fail(ErrorCode::kInvalidArgument, "the buffer is not as long as the extent");
    }
    if (!range_fits(extent.offset, extent.length, size())) {
      return fail(ErrorCode::kTruncated, "the file ends before the requested bytes", extent.offset);
    }
    const auto& head = file_->head();
    std::size_t from_head = 0;
    if (extent.offset < head.size()) {
      const auto begin = static_cast<std::size_t>(extent.offset);
      from_head = std::min(out.size(), head.size() - begin);
      std::copy_n(head.begin() + static_cast<std::ptrdiff_t>(begin), from_head, out.begin());
    }
    return blocks_.read(extent.offset + from_head, out.subspan(from_head));
  }

  bool is_remote() const override { return true; }

  void expect(ReadPattern pattern) const override {
    blocks_.expect_sequence(pattern == ReadPattern::kSequential);
  }

  void prefetch(const Extent& extent) const override {
    if (!range_fits(extent.offset, extent.length, size())) return;
    try {
      blocks_.plan({extent.offset, extent.offset + extent.length});
    } catch (const std::bad_alloc&) {  // A hint never fails.
    }
  }

 private:
  const std::unique_ptr<HttpFile> file_;
  mutable BlockCache blocks_;
};

}  // namespace

Result<std::shared_ptr<const Source>> open_url(const Url& url, const MakeTransfer& make_transfer,
                                               const HttpOptions& options) try {
  auto file = HttpFile::open(url, make_transfer, options);
  if (!file) return propagate(file);
  return std::make_shared<const HttpSource>(std::move(*file));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier::http
