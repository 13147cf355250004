#include "espalier/read/fetch.h"

#include "espalier/codec/chunk_gate.h"

namespace espalier {
namespace {

GroupGather gather_of(const ReadPlan& plan) {
  GroupGather gather;
  for (const PlannedChunk& chunk : plan.chunks()) gather.add(chunk.stored, chunk.bases);
  gather.start();
  return gather;
}

}  // namespace

Fetch::Fetch(ReadPlan plan, MutableByteSpan out)
    : plan_(std::move(plan)), out_(out), gather_(gather_of(plan_)) {}

Result<void> Fetch::feed(const Extent& extent, ByteSpan bytes) {
  auto fed = gather_.feed(extent, bytes, [&](std::size_t i, StoredLayers stored) {
    return plan_.deliver(i, stored, out_, reader_);
  });
  failed_ = failed_ || !fed;
  return fed;
}

Result<void> Fetch::finish() const {
  if (failed_ || !gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the read still needs bytes of the file, or has failed");
  }
  return {};
}

}  // namespace espalier
