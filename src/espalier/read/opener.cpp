#include "espalier/read/opener.h"

#include <algorithm>

#include "espalier/format/tables.h"

namespace espalier {
namespace {

// Features that this build can read.
constexpr std::uint64_t kKnownFeatures = kFeatureZstd | kFeaturePlanes;

}  // namespace

Opener::Opener(OpenOptions options)
    : options_(options), gather_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {
  if (options_.file_size == 0) {
    // Nothing to feed, and yet something to say.
    if (auto header = decode_header({}, options_.limits, kKnownFeatures); !header) {
      error_ = header.error();
    }
  }
}

std::span<const Extent> Opener::needs() const {
  return error_ ? std::span<const Extent>() : gather_.needs();
}

Result<void> Opener::feed(const Extent& extent, ByteSpan bytes) {
  if (error_) return tl::unexpected<Error>(*error_);
  auto fed = gather_.feed(extent, bytes, [&](std::size_t, ByteSpan front) {
    if (!header_) return take_front(front);
    std::copy(front.begin(), front.end(),
              index_->bytes().begin() + static_cast<std::ptrdiff_t>(index_filled_));
    index_filled_ += front.size();
    return Result<void>{};
  });
  if (fed && header_ && index_filled_ < header_->index_length && gather_.is_complete()) {
    gather_ = Gather({{0, kHeaderBytes + index_filled_, header_->index_length - index_filled_}});
    // The same bytes may hold the rest too, as when a whole mapped file is fed at once.
    return feed(extent, bytes);
  }
  if (!fed) error_ = fed.error();
  return fed;
}

Result<void> Opener::take_front(ByteSpan front) {
  auto header = decode_header(front, options_.limits, kKnownFeatures);
  if (!header) return propagate(header);
  if (auto ok = check_file_length(*header, options_.file_size); !ok) return ok;
  auto arena = Arena::allocate(header->index_length, options_.allocator);
  if (!arena) return propagate(arena);
  const ByteSpan index = front.subspan(kHeaderBytes);
  const auto copied = std::min<std::uint64_t>(index.size(), header->index_length);
  std::copy_n(index.begin(), copied, arena->bytes().begin());
  index_ = std::move(*arena);
  index_filled_ = copied;
  header_ = *header;
  return {};
}

Result<Checkpoint> Opener::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  if (!header_ || !index_ || !gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
  }
  auto catalog = Catalog::from_index(*header_, std::move(*index_), options_.limits);
  index_.reset();
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
