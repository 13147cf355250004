#include "files/open/private_source.h"

#include <optional>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

class PrivateSource : public Source {
 public:
  PrivateSource(std::shared_ptr<const Source> source, std::size_t files)
      : source_(std::move(source)), mappings_(files) {}
  ~PrivateSource() override {
    for (const MutableByteSpan& mapping : mappings_) {
      if (!mapping.empty()) ::munmap(mapping.data(), mapping.size());
    }
  }

  /// Maps what can be mapped. Call once. A separate step, so that no allocation can fail after a
  /// mapping exists.
  void map() {
    for (std::uint32_t file = 0; file < mappings_.size(); ++file) {
      const auto mapped = source_->mapping(file);
      const auto from = source_->descriptor(file);
      if (!mapped || mapped->empty() || !from) continue;
      // Pages are the page cache's until they are written to, so none are reserved for a copy of
      // the file. Systems that reserve them all the same (vm.overcommit_memory=2) may refuse.
      void* const memory = ::mmap(nullptr, mapped->size(), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_NORESERVE, *from, 0);
      if (memory != MAP_FAILED) {
        mappings_[file] = {static_cast<std::byte*>(memory), mapped->size()};
      }
    }
  }

  std::uint64_t size() const override { return source_->size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (const auto mapped = mapping(extent.file)) {
      if (!range_fits(extent.offset, extent.length, mapped->size())) {
        return fail(ErrorCode::kTruncated, "the file ends before the requested bytes",
                    extent.offset);
      }
      return mapped->subspan(static_cast<std::size_t>(extent.offset),
                             static_cast<std::size_t>(extent.length));
    }
    const auto out = scratch.first(static_cast<std::size_t>(extent.length));
    if (auto ok = source_->copy(extent, out); !ok) return propagate(ok);
    return ByteSpan(out);
  }

  Result<void> copy(const Extent& extent, MutableByteSpan out) const override {
    return source_->copy(extent, out);
  }

  std::optional<ByteSpan> mapping(std::uint32_t file) const override {
    if (file >= mappings_.size() || mappings_[file].empty()) return std::nullopt;
    return mappings_[file];
  }

  bool may_have_changed() const override { return source_->may_have_changed(); }
  void expect(ReadPattern pattern) const override { source_->expect(pattern); }
  void announce(const Extent& all) const override { source_->announce(all); }
  void prefetch(const Extent& extent) const override { source_->prefetch(extent); }

  void populate(const Extent& extent) const override {
    source_->prefetch(extent);
#ifdef MADV_POPULATE_READ
    const auto mapped = mapping(extent.file);
    if (!mapped || extent.length == 0) return;
    if (!range_fits(extent.offset, extent.length, mapped->size())) return;
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = extent.offset / page * page;
    ::madvise(mappings_[extent.file].data() + begin,
              static_cast<std::size_t>(extent.offset + extent.length - begin), MADV_POPULATE_READ);
#endif
  }

 private:
  std::shared_ptr<const Source> source_;
  std::vector<MutableByteSpan> mappings_;  // by file; empty for those without one
};

}  // namespace

std::shared_ptr<const Source> map_privately(std::shared_ptr<const Source> source,
                                            std::size_t files) {
  auto mapped = std::make_shared<PrivateSource>(std::move(source), files);
  mapped->map();
  return mapped;
}

std::shared_ptr<const Source> without_mappings(std::shared_ptr<const Source> source) {
  return std::make_shared<const PrivateSource>(std::move(source), 0);
}

}  // namespace espalier
