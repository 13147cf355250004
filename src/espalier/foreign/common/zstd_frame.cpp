#include "espalier/foreign/common/zstd_frame.h"

#include <algorithm>
#include <memory>
#include <string>

#include <zstd.h>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

// A block of 128 KiB takes four bytes at least: a header, and a byte that repeats.
constexpr std::uint64_t kMostInBlock = 128 * 1024;
constexpr std::uint64_t kLeastOfBlock = 4;

}  // namespace

Result<std::vector<std::byte>> decompress_frame(ByteSpan bytes, std::uint64_t most) {
  const std::size_t length = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  if (ZSTD_isError(length) != 0 || length != bytes.size()) {
    return fail(ErrorCode::kForeignInvalid, "is not one frame of zstd");
  }
  // Frames need not say how much they hold.
  const unsigned long long claimed = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  const bool is_known = claimed != ZSTD_CONTENTSIZE_UNKNOWN && claimed != ZSTD_CONTENTSIZE_ERROR;
  const auto too_large = [&] {
    return fail(ErrorCode::kLimitExceeded,
                "decompresses to more than the " + counted(most, "byte") + " that are allowed");
  };
  if (is_known && claimed > most) return too_large();
  if (is_known && claimed / kMostInBlock > bytes.size() / kLeastOfBlock) {
    return fail(ErrorCode::kForeignInvalid, "claims more bytes than it can hold");
  }
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          ZSTD_freeDStream);
  if (!stream) return fail(ErrorCode::kOutOfMemory, "needs more memory than there is");
  std::vector<std::byte> out(is_known ? static_cast<std::size_t>(claimed) : 0);
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (std::size_t made = 0;;) {
    ZSTD_outBuffer to{out.data(), out.size(), made};
    const std::size_t left = ZSTD_decompressStream(stream.get(), &to, &in);
    if (ZSTD_isError(left) != 0) return fail(ErrorCode::kForeignInvalid, "does not decompress");
    made = to.pos;
    if (left == 0 && in.pos == in.size) {
      out.resize(made);
      break;
    }
    if (made < out.size() || is_known) {
      return fail(ErrorCode::kForeignInvalid, "does not decompress");
    }
    if (made >= most) return too_large();
    out.resize(static_cast<std::size_t>(std::min<std::uint64_t>(
        most, std::max<std::uint64_t>(2 * std::uint64_t{made}, 64 * 1024))));
  }
  return out;
}

}  // namespace espalier
