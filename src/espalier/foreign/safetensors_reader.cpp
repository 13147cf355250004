#include "espalier/foreign/safetensors_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/safetensors_header.h"
#include "espalier/foreign/safetensors_tables.h"
#include "espalier/format/catalog.h"

namespace espalier {
namespace {

// The shortest header: {}
constexpr std::uint64_t kMinHeaderBytes = 2;
// Texts are numbered by 32-bit offsets, whatever the limits say.
constexpr std::uint64_t kMaxHeaderBytes = (std::uint64_t{1} << 32) - 1;

}  // namespace

SafetensorsOpener::SafetensorsOpener(OpenOptions options)
    : options_(options), gather_({{0, 0, std::min(options.file_size, kFirstReadBytes)}}) {
  if (options_.file_size < kSafetensorsLengthBytes + kMinHeaderBytes) {
    error_ = Error{ErrorCode::kSafetensorsInvalid,
                   0,
                   {},
                   "the file has " + counted(options_.file_size, "byte") +
                       ", fewer than the smallest safetensors file"};
  }
}

std::span<const Extent> SafetensorsOpener::needs() const {
  return error_ ? std::span<const Extent>() : gather_.needs();
}

Result<void> SafetensorsOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (error_) return tl::unexpected<Error>(*error_);
  auto fed = gather_.feed(extent, bytes, [&](std::size_t, ByteSpan piece) {
    if (!header_) return take_front(piece);
    std::copy(piece.begin(), piece.end(),
              header_->bytes().begin() + static_cast<std::ptrdiff_t>(header_filled_));
    header_filled_ += piece.size();
    return Result<void>{};
  });
  if (fed && header_ && header_filled_ < header_length_ && gather_.is_complete()) {
    gather_ =
        Gather({{0, kSafetensorsLengthBytes + header_filled_, header_length_ - header_filled_}});
    // The same bytes may hold the rest too, as when a whole mapped file is fed at once.
    return feed(extent, bytes);
  }
  if (!fed) error_ = fed.error();
  return fed;
}

Result<void> SafetensorsOpener::take_front(ByteSpan front) {
  const auto length = load_le<std::uint64_t>(front.data());
  if (length < kMinHeaderBytes) {
    return fail(ErrorCode::kSafetensorsInvalid,
                "the header's length is " + std::to_string(length) + ", too little for a header",
                0);
  }
  // First the file's size: most files that are no safetensors files at all end here.
  const std::uint64_t room = options_.file_size - kSafetensorsLengthBytes;
  if (length > room) {
    return fail(ErrorCode::kSafetensorsInvalid,
                "the header's length is " + std::to_string(length) + " and the file has only " +
                    counted(room, "byte") + " after it, so it is cut short or no safetensors file",
                0);
  }
  const std::uint64_t limit = std::min(options_.limits.safetensors_header_bytes, kMaxHeaderBytes);
  if (length > limit) {
    return fail(ErrorCode::kLimitExceeded,
                "the header has " + counted(length, "byte") +
                    " and Limits::safetensors_header_bytes allows " + std::to_string(limit),
                0);
  }
  auto arena = Arena::allocate(length + 1, options_.allocator);
  if (!arena) return propagate(arena);
  const ByteSpan header = front.subspan(kSafetensorsLengthBytes);
  const auto copied = std::min<std::uint64_t>(header.size(), length);
  std::copy_n(header.begin(), copied, arena->bytes().begin());
  header_ = std::move(*arena);
  header_filled_ = copied;
  header_length_ = length;
  return {};
}

Result<Checkpoint> SafetensorsOpener::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  if (!header_ || !gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
  }
  Arena arena = std::move(*header_);
  header_.reset();
  const std::span<char> json(reinterpret_cast<char*>(arena.bytes().data()), arena.bytes().size());
  auto header = parse_safetensors_header(json, options_.limits);
  if (!header) return propagate(header);
  auto tables =
      safetensors_tables(*header, json.data(), header_length_, options_.file_size, options_.limits);
  if (!tables) return propagate(tables);
  auto catalog =
      Catalog::from_foreign(FileFormat::kSafetensors, std::move(*tables), options_.file_size,
                            kSafetensorsLengthBytes + header_length_, options_.limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
