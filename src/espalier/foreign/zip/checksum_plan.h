// Checks the bytes of a checkpoint against the checksums that its format has in place of hashes.
#ifndef ESPALIER_FOREIGN_ZIP_CHECKSUM_PLAN_H_
#define ESPALIER_FOREIGN_ZIP_CHECKSUM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"
#include "espalier/read/verify.h"

namespace espalier {

/// What a check of all FileEntry::checksums reads. A driver reads the pieces, in any order and on
/// any thread, and keeps crc() of each. Immutable; const use is thread-safe.
class ChecksumPlan {
 public:
  /// `catalog` must outlive the plan. Pieces have at most `piece_bytes` bytes.
  ChecksumPlan(const Catalog& catalog, std::uint64_t piece_bytes);

  std::span<const Extent> pieces() const { return pieces_; }
  /// Bytes of all checksums but those of headers, and how many these are.
  std::uint64_t bytes() const { return bytes_; }
  std::size_t checksums() const { return checksums_; }
  /// Bytes of tensors in files that are there which no checksum covers. A tensor that has another's
  /// bytes counts as well.
  std::uint64_t unchecked() const { return unchecked_; }

  /// Of which kind the checksum of piece `i` is.
  Checksum::Kind kind(std::size_t i) const { return kinds_[i]; }
  /// What piece `i`, which has these bytes, is compared by.
  std::uint32_t crc(std::size_t i, ByteSpan bytes) const;

  /// What is damaged, given crc() of each piece: in `damage` what tensors have, for
  /// VerifyPlan::report(), and the rest in `errors`.
  void compare(std::span<const std::uint32_t> crcs, std::vector<Damage>& damage,
               std::vector<Error>& errors) const;

 private:
  struct Range {
    std::uint32_t file = 0;
    Checksum checksum;
    std::uint32_t first_chunk =
        0;  // the first of a tensor's chunks in it; kNoChunk if there is none
  };
  void cover_chunks();

  const Catalog& catalog_;
  std::vector<Range> ranges_;          // by file and offset
  std::vector<Extent> pieces_;         // of the ranges, in their order
  std::vector<Checksum::Kind> kinds_;  // by piece
  std::uint64_t bytes_ = 0;
  std::size_t checksums_ = 0;
  std::uint64_t unchecked_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_CHECKSUM_PLAN_H_
