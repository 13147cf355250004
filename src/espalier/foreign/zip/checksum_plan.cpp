#include "espalier/foreign/zip/checksum_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/format/file_set.h"

namespace espalier {

ChecksumPlan::ChecksumPlan(const Catalog& catalog, std::uint64_t piece_bytes) : catalog_(catalog) {
  for (std::uint32_t file = 0; file < catalog.files().size(); ++file) {
    const FileEntry& entry = catalog.files()[file];
    if (entry.problem) continue;
    for (const Checksum& checksum : entry.checksums) ranges_.push_back({file, checksum, kNoChunk});
  }
  merge_sort_runs(ranges_, [](const Range& a, const Range& b) {
    return std::pair(a.file, a.checksum.offset) < std::pair(b.file, b.checksum.offset);
  });
  for (const Range& range : ranges_) {
    const auto& [offset, length, crc, kind, is_of_header] = range.checksum;
    for (std::uint64_t at = 0; at < length; at += piece_bytes) {
      pieces_.push_back({range.file, offset + at, std::min(piece_bytes, length - at)});
      kinds_.push_back(kind);
    }
    if (is_of_header) continue;
    bytes_ += length;
    ++checksums_;
  }
  cover_chunks();
}

void ChecksumPlan::cover_chunks() {
  const auto chunks = catalog_.tables().chunks;
  for (std::uint32_t number = 0; number < chunks.size(); ++number) {
    const ChunkRecord& chunk = chunks[number];
    const FileEntry& file = catalog_.files()[chunk.file];
    // The bytes of a made file come from ranges that its maker checks.
    if (file.maker || file.problem || chunk.stored == 0) continue;
    auto range = std::upper_bound(ranges_.begin(), ranges_.end(), chunk,
                                  [](const ChunkRecord& wanted, const Range& each) {
                                    return std::pair(std::uint32_t{wanted.file}, wanted.offset) <
                                           std::pair(each.file, each.checksum.offset);
                                  });
    // The parts of a tensor that lie one after the other have a checksum each.
    std::uint64_t left = chunk.stored;
    if (range != ranges_.begin()) --range;
    for (; range != ranges_.end() && left > 0; ++range) {
      const std::uint64_t at = chunk.offset + (chunk.stored - left);
      const Checksum& checksum = range->checksum;
      if (range->file != chunk.file || checksum.offset > at ||
          at - checksum.offset >= checksum.length) {
        break;
      }
      left -= std::min(left, checksum.length - (at - checksum.offset));
      if (range->first_chunk == kNoChunk) range->first_chunk = number;
    }
    unchecked_ += left;
  }
}

std::uint32_t ChecksumPlan::crc(std::size_t piece, ByteSpan bytes) const {
  return kinds_[piece] == Checksum::Kind::kCrc32c ? crc32c_after(0, bytes) : crc32_after(0, bytes);
}

void ChecksumPlan::compare(std::span<const std::uint32_t> crcs, std::vector<Damage>& damage,
                           std::vector<Error>& errors) const {
  std::size_t piece = 0;
  for (const Range& range : ranges_) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < range.checksum.length; at += pieces_[piece++].length) {
      const std::uint64_t bytes = pieces_[piece].length;
      crc = range.checksum.kind == Checksum::Kind::kCrc32c ? crc32c_joined(crc, crcs[piece], bytes)
                                                           : crc32_joined(crc, crcs[piece], bytes);
    }
    if (crc == range.checksum.crc) continue;
    if (range.checksum.is_of_header) {
      errors.push_back({ErrorCode::kForeignInvalid,
                        range.checksum.offset,
                        {},
                        "the data behind this header begin elsewhere than predicted, so programs "
                        "disagree about them; download the file and open it there",
                        catalog_.files()[range.file].name});
    } else if (range.first_chunk != kNoChunk) {
      damage.push_back({Fault::kWrongChecksum, range.checksum.offset, range.first_chunk});
    } else {
      errors.push_back({code_of(Fault::kWrongChecksum),
                        range.checksum.offset,
                        {},
                        std::string(message_of(Fault::kWrongChecksum)),
                        catalog_.files()[range.file].name});
    }
  }
}

}  // namespace espalier
