// Puts arrays of zarr together from their stored chunks.
#ifndef ESPALIER_FOREIGN_ZARR_MAKER_H_
#define ESPALIER_FOREIGN_ZARR_MAKER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/zarr/array.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// A byte of zstd or deflate makes fewer.
inline constexpr std::uint64_t kMostForByte = 64 * 1024;

/// The bytes that these stretches, each an offset and a length, lie on; those of several once.
std::uint64_t covered_bytes(std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches);

/// A chunk that is there.
struct ZarrChunk {
  std::uint64_t number = 0;
  /// Where its bytes lie in a file that is not made.
  Extent extent = {};
  /// Or those bytes, which `ZarrPart::keeper` keeps.
  ByteSpan inline_bytes = {};
  bool is_inline = false;
};

/// An array, and where it goes in a made file.
struct ZarrPart {
  std::shared_ptr<const ZarrArray> array;
  std::vector<ZarrChunk> chunks;  // in ascending order, each once
  std::uint64_t to = 0;
};

/// Makes a file of arrays, one after the other, with zeros between them. As a stream it needs
/// memory for a chunk and, unless each chunk is one piece of the array, for those of a row of
/// chunks.
class ZarrMaker final : public FileMaker {
 public:
  /// `keeper` keeps the inline bytes.
  ZarrMaker(std::vector<ZarrPart> parts, std::shared_ptr<const void> keeper);

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override;
  bool finds_damage() const override { return true; }

 private:
  std::shared_ptr<const std::vector<ZarrPart>> parts_;
  std::shared_ptr<const void> keeper_;
};

/// Memory that a stream over the array takes beside a chunk's compressed form; nothing if it
/// overflows.
std::optional<std::uint64_t> zarr_working_bytes(const ZarrArray& array);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZARR_MAKER_H_
