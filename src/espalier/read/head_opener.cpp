#include "espalier/read/head_opener.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace espalier {

HeadOpener::HeadOpener(const OpenOptions& options)
    : options_(options), gather_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {}

std::span<const Extent> HeadOpener::needs() const {
  return error_ ? std::span<const Extent>() : gather_.needs();
}

Result<void> HeadOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (error_) return tl::unexpected<Error>(*error_);
  auto fed = gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan piece) {
    if (!arena_) return take_front(piece);
    std::copy(
        piece.begin(), piece.end(),
        arena_->bytes().begin() + static_cast<std::ptrdiff_t>(in_front_ + i * kGatheredPiece));
    return Result<void>{};
  });
  if (fed && arena_ && in_front_ < body_.length && !is_rest_wanted_) {
    is_rest_wanted_ = true;
    std::vector<Extent> pieces;
    for (std::uint64_t at = in_front_; at < body_.length; at += kGatheredPiece) {
      pieces.push_back({0, body_.offset + at, std::min(kGatheredPiece, body_.length - at)});
    }
    gather_ = Gather(std::move(pieces));
    // The same bytes may hold the rest too, for example if a whole mapped file is fed at once.
    return feed(extent, bytes);
  }
  if (!fed) error_ = fed.error();
  return fed;
}

Result<void> HeadOpener::take_front(ByteSpan front) {
  auto body = read_front(front);
  if (!body) return propagate(body);
  auto arena = Arena::allocate(body->arena_bytes, options_.allocator);
  if (!arena) return propagate(arena);
  const ByteSpan begun = front.subspan(static_cast<std::size_t>(body->offset));
  in_front_ = std::min<std::uint64_t>(begun.size(), body->length);
  std::copy_n(begun.begin(), in_front_, arena->bytes().begin());
  arena_ = std::move(*arena);
  body_ = *body;
  return {};
}

Result<Checkpoint> HeadOpener::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  if (!arena_ || !gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
  }
  Arena body = std::move(*arena_);
  arena_.reset();
  return open_body(std::move(body));
}

}  // namespace espalier
