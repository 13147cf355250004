// Puts together the stored bytes of chunks that have bases elsewhere.
#ifndef ESPALIER_READ_GROUP_GATHER_H_
#define ESPALIER_READ_GROUP_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/read/gather.h"

namespace espalier {

/// A Gather of groups of extents: each group is passed on once all of it has come. An extent that
/// is a group by itself and arrives in one piece is passed on without a copy. Not thread-safe.
class GroupGather {
 public:
  /// Takes the complete bytes of group number `i`, in its order, which are valid during the call
  /// only.
  using Complete = std::function<Result<void>(std::size_t i, StoredLayers bytes)>;

  /// Adds a group: `extent`, and the extents of `bases`. Groups of one extent come sorted by file
  /// and offset.
  void add(const Extent& extent, std::span<const ChunkRecord> bases);
  /// Call it once, after the last group.
  void start();

  /// See Gather.
  std::span<const Extent> needs() const { return gather_.needs(); }
  bool is_complete() const { return gather_.is_complete(); }
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes, const Complete& complete);

 private:
  struct Member {
    std::uint32_t group = 0;
    std::uint32_t part = 0;
  };
  struct Partial {
    std::vector<std::vector<std::byte>> parts;
    std::size_t missing = 0;
  };

  std::uint32_t groups_ = 0;
  std::vector<Extent> extents_;  // until start()
  std::vector<Member> members_;  // of each extent; empty if every group has one
  std::unordered_map<std::uint32_t, Partial> partial_;  // groups of several extents
  Gather gather_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_GROUP_GATHER_H_
