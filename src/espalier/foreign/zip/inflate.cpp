#include "espalier/foreign/zip/inflate.h"

#include <algorithm>
#include <limits>

#include <zlib.h>

namespace espalier {
namespace {

// zlib counts in 32 bits.
uInt most(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

// zlib does not change its input, but does not say so unless ZLIB_CONST is defined.
Bytef* as_bytef(const std::byte* bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes));
}

}  // namespace

std::uint32_t crc32_after(std::uint32_t before, ByteSpan bytes) {
  uLong crc = before;
  while (!bytes.empty()) {
    const uInt part = most(bytes.size());
    crc = ::crc32(crc, as_bytef(bytes.data()), part);
    bytes = bytes.subspan(part);
  }
  return static_cast<std::uint32_t>(crc);
}

std::uint32_t crc32_joined(std::uint32_t before, std::uint32_t after, std::uint64_t length) {
  return static_cast<std::uint32_t>(::crc32_combine(before, after, static_cast<z_off_t>(length)));
}

struct Inflater::Stream {
  z_stream zlib = {};
  bool is_begun = false;
};

Inflater::Inflater(DeflateForm form) : stream_(std::make_unique<Stream>()) {
  // The window has 32 KiB. zlib counts the form in: negative is a raw stream, without a header.
  constexpr int kGzipBits = 16;
  const int bits = form == DeflateForm::kRaw    ? -MAX_WBITS
                   : form == DeflateForm::kGzip ? MAX_WBITS + kGzipBits
                                                : MAX_WBITS;
  stream_->is_begun = inflateInit2(&stream_->zlib, bits) == Z_OK;
}

Inflater::~Inflater() {
  if (stream_->is_begun) inflateEnd(&stream_->zlib);
}

Result<Inflater::Progress> Inflater::run(ByteSpan packed, MutableByteSpan out) {
  if (!stream_->is_begun) return fail(ErrorCode::kOutOfMemory, "cannot allocate memory to inflate");
  z_stream& zlib = stream_->zlib;
  Progress progress;
  while (!is_at_end_) {
    const uInt in_part = most(packed.size() - progress.taken);
    const uInt out_part = most(out.size() - progress.made);
    if (out_part == 0) break;
    zlib.next_in = as_bytef(packed.data() + progress.taken);
    zlib.avail_in = in_part;
    zlib.next_out = as_bytef(out.data() + progress.made);
    zlib.avail_out = out_part;
    const int status = inflate(&zlib, Z_NO_FLUSH);
    const std::size_t taken = in_part - zlib.avail_in;
    const std::size_t made = out_part - zlib.avail_out;
    progress.taken += taken;
    progress.made += made;
    is_at_end_ = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR) {
      return fail(ErrorCode::kOutOfMemory, "cannot allocate memory to inflate");
    }
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return fail(ErrorCode::kForeignInvalid,
                  "the compressed data are damaged; copy or download the file again");
    }
    if (taken == 0 && made == 0) break;
  }
  return progress;
}

}  // namespace espalier
