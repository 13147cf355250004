#include "espalier/foreign/zarr/unpacker.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include <zstd.h>

#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/zip/inflate.h"

namespace espalier {
namespace {

tl::unexpected<Error> damaged_chunk(const std::string& how) {
  return fail(ErrorCode::kForeignInvalid,
              "a stored chunk of the array " + how + "; copy or download the checkpoint again");
}

tl::unexpected<Error> holds_more(std::uint64_t size) {
  return damaged_chunk("holds more than the " + counted(size, "byte") + " of its shape");
}

// RFC 8878, section 3.1.1.1: a magic number and flags of five bytes, then the window's size as five
// bits of an exponent from 10 on and three of a mantissa, unless the content is the window.
constexpr std::size_t kWindowAt = 5;
constexpr std::byte kIsWindow{0x20};
constexpr std::size_t kMostOfHead = 18;  // ZSTD_FRAMEHEADERSIZE_MAX

}  // namespace

struct ZarrUnpacker::Streams {
  // Takes a byte of the frame's head and returns what to read in its place; null if the content is
  // larger than the chunk. A window of up to 2^31 bytes becomes as small as the chunk, which needs
  // no larger one: a stream takes memory for all that a frame asks for, and a frame of few bytes
  // may ask for 128 MiB.
  const std::byte* take_head(std::byte next, std::uint64_t size) {
    const bool has_window = (head[kWindowAt - 1] & kIsWindow) == std::byte{0};
    if (head_count == kWindowAt && has_window && next < std::byte{22 << 3}) {
      // A block of 128 KiB needs as much.
      const int log = std::max(static_cast<int>(std::bit_width(size)), 17);
      next = static_cast<std::byte>(std::min(std::to_integer<int>(next), (log - 10) << 3));
    }
    std::byte* const taken = &head[head_count++];
    *taken = next;
    const auto content = ZSTD_getFrameContentSize(head.data(), head_count);
    if (content == ZSTD_CONTENTSIZE_ERROR) return taken;
    head_count = kMostOfHead;
    return content == ZSTD_CONTENTSIZE_UNKNOWN || content <= size ? taken : nullptr;
  }

  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> zstd{nullptr, ZSTD_freeDStream};
  std::size_t head_count = 0;
  std::array<std::byte, kMostOfHead> head{};
  std::optional<Inflater> inflater;
};

ZarrUnpacker::ZarrUnpacker(const ZarrGrid& grid, std::uint64_t stored, std::uint64_t size)
    : has_inner_crc_(grid.has_inner_crc),
      has_outer_crc_(grid.has_outer_crc),
      packing_(grid.packing),
      left_(stored),
      size_(size),
      is_packing_over_(grid.packing == ZarrPacking::kNone),
      streams_(std::make_unique<Streams>()) {
  if (packing_ == ZarrPacking::kZstd) streams_->zstd.reset(ZSTD_createDStream());
  const bool is_gzip = packing_ == ZarrPacking::kGzip;
  if (is_gzip || packing_ == ZarrPacking::kZlib) {
    streams_->inflater.emplace(is_gzip ? DeflateForm::kGzip : DeflateForm::kZlib);
  }
}
ZarrUnpacker::~ZarrUnpacker() = default;

// Of the packed bytes alone, some of what they suffice for; `made` beyond the end of `out` is an
// error of the caller's.
Result<ZarrUnpacker::Progress> ZarrUnpacker::unpack(ByteSpan bytes, MutableByteSpan out) {
  Progress progress;
  switch (packing_) {
    case ZarrPacking::kNone:
      progress.taken = progress.made = std::min(bytes.size(), out.size());
      std::copy(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(progress.made),
                out.begin());
      return progress;
    case ZarrPacking::kZstd: {
      if (!streams_->zstd) return fail(ErrorCode::kOutOfMemory, "cannot allocate memory for zstd");
      if (is_packing_over_) return progress;
      if (streams_->head_count < kMostOfHead && !bytes.empty()) {
        const std::byte* head = streams_->take_head(bytes[0], size_ + kCrcBytes);
        if (head == nullptr) return holds_more(size_);
        bytes = {head, 1};
      }
      ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const std::size_t more = ZSTD_decompressStream(streams_->zstd.get(), &to, &in);
      if (ZSTD_isError(more) != 0) return damaged_chunk("is damaged: zstd refuses it");
      is_packing_over_ = more == 0;
      return Progress{in.pos, to.pos};
    }
    case ZarrPacking::kGzip:
    case ZarrPacking::kZlib: {
      const auto inflated = streams_->inflater->run(bytes, out);
      if (!inflated && inflated.error().code == ErrorCode::kForeignInvalid) {
        return damaged_chunk("is damaged: zlib refuses it");
      }
      if (!inflated) return propagate(inflated);
      is_packing_over_ = streams_->inflater->is_at_end();
      return Progress{inflated->taken, inflated->made};
    }
  }
  return progress;
}

Result<ZarrUnpacker::Progress> ZarrUnpacker::run(ByteSpan bytes, MutableByteSpan out) {
  Progress all;
  const auto use = [&](std::size_t count) {
    bytes = bytes.subspan(count);
    all.taken += count;
    left_ -= count;
  };
  const std::uint64_t tail = has_outer_crc_ ? kCrcBytes : 0;
  if (left_ < tail - outer_count_) return damaged_chunk("is too short for its checksum");
  for (;;) {
    // What is packed comes before the checksum.
    const std::uint64_t packed = left_ - (tail - outer_count_);
    ByteSpan part =
        bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(packed, bytes.size())));
    // After the elements, their checksum, or one byte that must not be there.
    std::array<std::byte, 1> beyond{};
    const std::uint64_t room = size_ - made_;
    MutableByteSpan to =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(room, out.size())));
    const bool is_beyond = room == 0;
    if (is_beyond) to = beyond;
    const auto progress = unpack(part, to);
    if (!progress) return propagate(progress);
    if (has_outer_crc_) outer_crc_ = crc32c_after(outer_crc_, part.first(progress->taken));
    use(progress->taken);
    if (is_beyond && progress->made > 0) {
      if (!has_inner_crc_ || inner_count_ == kCrcBytes) {
        return holds_more(size_);
      }
      inner_said_[inner_count_++] = beyond[0];
    } else if (!is_beyond) {
      if (has_inner_crc_) inner_crc_ = crc32c_after(inner_crc_, to.first(progress->made));
      made_ += progress->made;
      all.made += progress->made;
      out = out.subspan(progress->made);
    }
    if (progress->taken > 0 || progress->made > 0) continue;
    if (packing_ != ZarrPacking::kNone && is_packing_over_ && !part.empty()) {
      return damaged_chunk("goes on after its compressed bytes end");
    }
    break;
  }
  // The rest is the outer checksum.
  while (has_outer_crc_ && !bytes.empty() && left_ > 0 && left_ <= kCrcBytes - outer_count_) {
    outer_said_[outer_count_++] = bytes[0];
    use(1);
  }
  return all;
}

Result<void> ZarrUnpacker::finish() const {
  if (made_ < size_ && is_packing_over_) {
    return damaged_chunk("holds " + counted(made_, "byte") + " and not the " +
                         std::to_string(size_) + " of its shape");
  }
  if (made_ < size_ || left_ > 0 || !is_packing_over_) return damaged_chunk("ends too early");
  const bool are_right =
      (!has_inner_crc_ ||
       (inner_count_ == kCrcBytes && load_le<std::uint32_t>(inner_said_.data()) == inner_crc_)) &&
      (!has_outer_crc_ ||
       (outer_count_ == kCrcBytes && load_le<std::uint32_t>(outer_said_.data()) == outer_crc_));
  if (!are_right) return damaged_chunk("does not match its CRC-32C");
  return {};
}

}  // namespace espalier
