// Reads one tensor, or a slice of it, from bytes that arrive in any order.
#ifndef ESPALIER_READ_FETCH_H_
#define ESPALIER_READ_FETCH_H_

#include <span>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/read/group_gather.h"
#include "espalier/read/plan.h"

namespace espalier {

/// The machine around a ReadPlan: needs() the stored chunks, checks and copies each as it comes.
class Fetch {
 public:
  /// Reads into `out`, which has plan.bytes() bytes and must outlive the machine.
  Fetch(ReadPlan plan, MutableByteSpan out);

  const ReadPlan& plan() const { return plan_; }
  /// The bytes still needed, neighbouring chunks joined. Valid until the next feed().
  std::span<const Extent> needs() const { return gather_.needs(); }
  /// Takes bytes of the file; kChunkCorrupt if they complete a chunk that does not match its hash.
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes);
  /// Success once every chunk has arrived intact.
  [[nodiscard]] Result<void> finish() const;

 private:
  ReadPlan plan_;
  MutableByteSpan out_;
  GroupGather gather_;
  ChunkReader reader_;
  bool failed_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_READ_FETCH_H_
