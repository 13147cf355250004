#include "espalier/read/opener.h"

#include <algorithm>

#include "espalier/format/tables.h"

namespace espalier {
namespace {

// Features that this build can read.
constexpr std::uint64_t kKnownFeatures = kFeatureZstd | kFeaturePlanes;

// The index is gathered in pieces of this size: in one, whoever feeds less than all of it would
// make it come together beside the arena first, and so be there twice.
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

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
  auto fed = gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan piece) {
    if (!header_) return take_front(piece);
    std::copy(piece.begin(), piece.end(),
              index_->bytes().begin() + static_cast<std::ptrdiff_t>(in_front_ + i * kPieceBytes));
    return Result<void>{};
  });
  if (fed && header_ && in_front_ < header_->index_length && !is_rest_wanted_) {
    is_rest_wanted_ = true;
    std::vector<Extent> pieces;
    for (std::uint64_t at = in_front_; at < header_->index_length; at += kPieceBytes) {
      pieces.push_back({0, kHeaderBytes + at, std::min(kPieceBytes, header_->index_length - at)});
    }
    gather_ = Gather(std::move(pieces));
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
  in_front_ = copied;
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
