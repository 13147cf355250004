// Checks a whole file: every chunk, every byte of padding, the tree digest.
#ifndef ESPALIER_READ_VERIFY_H_
#define ESPALIER_READ_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/codec/region_check.h"
#include "espalier/error.h"
#include "espalier/format/regions.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/read/group_gather.h"

namespace espalier {

/// The regions that a verification checks: together, all the bytes after the index.
/// Immutable; const use is thread-safe, so that threads can share the regions.
class VerifyPlan {
 public:
  /// Regions have about `region_bytes` bytes. For a format without hashes there are none: opening
  /// it checked all that can be checked.
  /// Of FileScope::kOwn, nothing of further files is checked, nor patches of what lies there; they
  /// are counted as unchecked.
  explicit VerifyPlan(Checkpoint checkpoint, std::uint64_t region_bytes = std::uint64_t{4} << 20,
                      FileScope scope = FileScope::kAll);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  std::span<const Region> regions() const { return regions_.list; }
  /// The number of chunk `i` of a region.
  std::uint32_t chunk(const Region& region, std::uint32_t i) const {
    return regions_.chunk(region.first + i);
  }
  /// The bases of the patch that is all of region `i`: see Catalog::bases(). Empty for others.
  std::span<const ChunkRecord> bases(std::size_t i) const;
  /// Bytes of region `i` and the bases in it.
  std::uint64_t bytes(std::size_t i) const;
  /// Bytes of all regions.
  std::uint64_t bytes() const;

  /// The chunks of region `i`, for a check_region() elsewhere, whose `Damage::chunk` then counts
  /// within the region.
  std::vector<RegionChunk> region_chunks(std::size_t i) const;
  /// The damage in region `i`, given its bytes and those of its bases: each chunk that cannot be
  /// decoded or does not match its hash, and each piece of padding that is not zero. kOutOfMemory
  /// if a chunk cannot be decoded for that. Thread-safe for different readers.
  [[nodiscard]] Result<std::vector<Damage>> check_region(std::size_t i, StoredLayers bytes,
                                                         ChunkReader& reader) const;
  /// The report for the damage that all regions together have: checks the tree (kDigestMismatch, or
  /// kTreeInvalid for equal elements in a set), sorts, and names the tensors concerned.
  VerifyReport report(std::vector<Damage> damage) const;

 private:
  std::uint32_t tensor_of(std::uint32_t chunk, std::uint32_t from) const;
  void add_files(VerifyReport& report) const;
  std::uint64_t unchecked() const;

  Checkpoint checkpoint_;
  FileScope scope_;
  Regions regions_;
  std::vector<std::uint32_t> tensors_;        // by chunk, if their order is not that of the regions
  std::vector<std::uint32_t> first_tensors_;  // the tensor of each region's first chunk
};

/// The machine around a VerifyPlan. Damage is no failure of feed(): it is in the report.
class Verify {
 public:
  explicit Verify(Checkpoint checkpoint);

  std::span<const Extent> needs() const { return gather_.needs(); }
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes);
  /// The report; kIncomplete if bytes are still needed.
  [[nodiscard]] Result<VerifyReport> finish();

 private:
  VerifyPlan plan_;
  GroupGather gather_;
  std::vector<Damage> damage_;
  ChunkReader reader_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_VERIFY_H_
