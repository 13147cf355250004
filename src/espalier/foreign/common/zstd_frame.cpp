#include "espalier/foreign/common/zstd_frame.h"

#include <algorithm>
#include <memory>
#include <string>

#include <zstd.h>
#include <zstd_errors.h>

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
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  if (!context) return fail(ErrorCode::kOutOfMemory, "needs more memory than there is");
  std::vector<std::byte> out(static_cast<std::size_t>(
      is_known ? claimed : std::min<std::uint64_t>(most, 4 * std::uint64_t{bytes.size()})));
  // In one call: a stream takes as much memory as the frame's window, and a window of 128 MiB may
  // stand before a few bytes.
  for (;;) {
    const std::size_t made =
        ZSTD_decompressDCtx(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
    if (ZSTD_isError(made) == 0) {
      out.resize(made);
      return out;
    }
    if (is_known || ZSTD_getErrorCode(made) != ZSTD_error_dstSize_tooSmall) {
      return fail(ErrorCode::kForeignInvalid, "does not decompress");
    }
    if (out.size() >= most) return too_large();
    const std::uint64_t more = std::max<std::uint64_t>(2 * std::uint64_t{out.size()}, 64 * 1024);
    out = {};
    out.resize(static_cast<std::size_t>(std::min(most, more)));
  }
}

}  // namespace espalier
