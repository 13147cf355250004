#include "espalier/foreign/hdf5/chunk_filters.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/codec/planes.h"
#include "espalier/foreign/hdf5/checksums.h"
#include "espalier/foreign/zip/inflate.h"

namespace espalier {
namespace {

constexpr std::size_t kSumBytes = 4;
// https://zlib.net/zlib_tech.html: "the limiting compression factor is 1032:1".
constexpr std::uint64_t kMostOfDeflate = 1032;

// Byte k of each element stands beside the others of that number; what is no whole element stays.
void unshuffle(ByteSpan from, std::size_t width, MutableByteSpan to) {
  const std::size_t count = from.size() / width;
  const std::size_t whole = count * width;
  if (width == 2 || width == 4 || width == 8) {
    PlanePointers<const std::byte> planes = {};
    for (std::size_t k = 0; k < width; ++k) planes[k] = from.data() + k * count;
    merge_planes({.width = static_cast<std::uint8_t>(width)}, planes, to.first(whole));
  } else {
    for (std::size_t k = 0; k < width; ++k) {
      for (std::size_t i = 0; i < count; ++i) to[i * width + k] = from[k * count + i];
    }
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(whole), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(whole));
}

// HDF5 1.6.2 swapped the bytes of both halves.
constexpr std::uint32_t with_swapped_halves(std::uint32_t sum) {
  return (sum & 0xFF00FF00) >> 8 | (sum & 0x00FF00FF) << 8;
}

tl::unexpected<Error> bad_chunk(const std::string& what, std::uint64_t offset) {
  return fail(ErrorCode::kForeignInvalid, "a chunk " + what, offset);
}

}  // namespace

Result<ByteSpan> Hdf5ChunkFilters::undo(std::span<const Hdf5Filter> filters, std::uint32_t mask,
                                        ByteSpan stored, std::uint64_t bytes,
                                        std::uint64_t offset) {
  ByteSpan now = stored;
  // Each checksum adds to the chunk.
  const std::size_t most = static_cast<std::size_t>(bytes) + kSumBytes * filters.size();
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((mask >> i & 1) != 0) continue;
    const Hdf5Filter& filter = filters[i];
    if (filter.id == kHdf5Deflate) {
      // One byte more than there may be tells a stream that goes on. A header may claim gigabytes
      // for a few bytes; deflate makes at most so many of one.
      next_.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(most, std::uint64_t{now.size()} * kMostOfDeflate) + 1));
      Inflater inflater(DeflateForm::kZlib);
      const auto made = inflater.run(now, next_);
      if (!made && made.error().code != ErrorCode::kForeignInvalid) return propagate(made);
      if (!made || !inflater.is_at_end() || made->made > most) {
        return bad_chunk("cannot be inflated; copy or download the file again", offset);
      }
      next_.resize(made->made);
    } else if (filter.id == kHdf5Shuffle) {
      const std::size_t width = filter.values[0];
      if (width <= 1 || width > now.size()) continue;
      next_.resize(now.size());
      unshuffle(now, width, next_);
    } else {
      if (now.size() < kSumBytes) return bad_chunk("has no room for its checksum", offset);
      const std::uint32_t sum = load_le<std::uint32_t>(now.data() + now.size() - kSumBytes);
      now = now.first(now.size() - kSumBytes);
      const std::uint32_t found = fletcher32(now);
      if (sum != found && sum != with_swapped_halves(found)) {
        return bad_chunk("does not match its checksum; copy or download the file again", offset);
      }
      continue;
    }
    std::swap(now_, next_);
    now = now_;
  }
  if (now.size() != bytes) {
    return bad_chunk(
        "has " + counted(now.size(), "byte") + " and its shape asks for " + std::to_string(bytes),
        offset);
  }
  return now;
}

}  // namespace espalier
