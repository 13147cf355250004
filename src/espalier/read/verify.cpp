#include "espalier/read/verify.h"

#include <algorithm>

#include "espalier/format/digest.h"
#include "espalier/read/plan.h"

namespace espalier {
namespace {

std::vector<Extent> extents_of(const VerifyPlan& plan) {
  std::vector<Extent> extents;
  extents.reserve(plan.regions().size());
  for (const Region& region : plan.regions()) extents.push_back(region.extent);
  return extents;
}

}  // namespace

VerifyPlan::VerifyPlan(Checkpoint checkpoint, std::uint64_t region_bytes)
    : checkpoint_(std::move(checkpoint)) {
  const Catalog& catalog = checkpoint_.catalog();
  if (catalog.has_hashes()) {
    regions_ = divide_into_regions(catalog.tables(), catalog.data_begin(), region_bytes);
  }
}

std::uint64_t VerifyPlan::bytes() const {
  std::uint64_t total = 0;
  for (const Region& region : regions_) total += region.extent.length;
  return total;
}

std::vector<Error> VerifyPlan::check_region(std::size_t i, ByteSpan bytes) const {
  const Region& region = regions_[i];
  std::vector<Error> errors;
  if (bytes.size() != region.extent.length) {
    errors.push_back({ErrorCode::kTruncated, region.extent.offset + bytes.size(), {},
                      "the file ends before its recorded length"});
    return errors;
  }
  std::uint64_t position = region.extent.offset;
  for (std::uint32_t chunk = region.first_chunk; chunk < region.first_chunk + region.chunk_count;
       ++chunk) {
    const ChunkRecord& record = checkpoint_.catalog().tables().chunks[chunk];
    const auto padding =
        bytes.subspan(static_cast<std::size_t>(position - region.extent.offset),
                      static_cast<std::size_t>(record.offset - position));
    const auto dirty = std::find_if(padding.begin(), padding.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (dirty != padding.end()) {
      errors.push_back({ErrorCode::kPaddingCorrupt,
                        position + static_cast<std::uint64_t>(dirty - padding.begin()), {},
                        "padding before a tensor is not zero: the file was damaged, though no "
                        "tensor was"});
    }
    const auto stored =
        bytes.subspan(static_cast<std::size_t>(record.offset - region.extent.offset),
                      record.stored);
    if (auto opened = open_chunk(checkpoint_.catalog(), chunk, stored); !opened) {
      errors.push_back(std::move(opened.error()));
    }
    position = record.offset + record.stored;
  }
  return errors;
}

std::vector<Error> VerifyPlan::check_tree() const {
  const Catalog& catalog = checkpoint_.catalog();
  auto digests = node_digests(catalog.tables());
  if (!digests) return {std::move(digests.error())};
  if (catalog.tree_digest() && digests->front() != *catalog.tree_digest()) {
    return {{ErrorCode::kDigestMismatch, Error::kNoOffset, {},
             "the header's tree digest is not that of the tree; the file was not written by a "
             "correct writer"}};
  }
  return {};
}

Verify::Verify(Checkpoint checkpoint)
    : plan_(checkpoint), gather_(extents_of(plan_)) {
  report_.has_hashes = checkpoint.catalog().has_hashes();
}

Result<void> Verify::feed(const Extent& extent, ByteSpan bytes) {
  return gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan region) {
    for (Error& error : plan_.check_region(i, region)) report_.errors.push_back(std::move(error));
    report_.chunks += plan_.regions()[i].chunk_count;
    report_.bytes += region.size();
    return Result<void>{};
  });
}

Result<VerifyReport> Verify::finish() {
  if (!gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the verification still needs bytes of the file");
  }
  for (Error& error : plan_.check_tree()) report_.errors.push_back(std::move(error));
  std::stable_sort(report_.errors.begin(), report_.errors.end(),
                   [](const Error& a, const Error& b) { return a.offset < b.offset; });
  return std::move(report_);
}

}  // namespace espalier
