#include "espalier/read/fetch.h"

namespace espalier {
namespace {

std::vector<Extent> extents_of(const ReadPlan& plan) {
  std::vector<Extent> extents;
  extents.reserve(plan.chunks().size());
  for (const PlannedChunk& chunk : plan.chunks()) extents.push_back(chunk.stored);
  return extents;
}

}  // namespace

Fetch::Fetch(ReadPlan plan, MutableByteSpan out)
    : plan_(std::move(plan)), out_(out), gather_(extents_of(plan_)) {}

Result<void> Fetch::feed(const Extent& extent, ByteSpan bytes) {
  auto fed = gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan stored) {
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
