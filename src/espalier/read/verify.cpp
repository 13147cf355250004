#include "espalier/read/verify.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/header.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/read/walker.h"

namespace espalier {
namespace {

std::vector<Extent> extents_of(const VerifyPlan& plan) {
  std::vector<Extent> extents;
  extents.reserve(plan.regions().size());
  for (const Region& region : plan.regions()) extents.push_back(region.extent);
  return extents;
}

constexpr std::string_view kDirtyPadding =
    "padding before a tensor is not zero: the file was damaged, though no tensor was";
constexpr std::string_view kEndsEarly = "the file ends before its recorded length";
constexpr std::string_view kNoDecoder =
    "this build has no decoder for the codec of these tensor bytes, so they are unchecked";

// Damage may be found millions of times, so it refers to its reason instead of holding it.
std::string_view reason_of(const Error& error) {
  if (error.code == ErrorCode::kUnsupportedCodec) return kNoDecoder;
  if (error.code == ErrorCode::kTruncated) return kEndsEarly;
  return error.message == kUndecodable ? kUndecodable : kHashMismatch;
}

// Gives each error the key path of the tensor that its chunk belongs to. One walk serves them all:
// a search for each would make a badly damaged file of many tensors take hours.
void name_tensors(const Checkpoint& checkpoint, std::span<const Damage> damage,
                  std::span<Error> errors) {
  std::vector<std::uint32_t> tensors;  // by damage, and ascending
  std::uint32_t tensor = 0;
  for (std::size_t i = 0; i < damage.size(); ++i) {
    // Damage is in the order of chunks, and so are tensors.
    const auto holds = [&](const TensorRef& ref) {
      return !ref.is_placeholder() && damage[i].chunk >= ref.first_chunk() &&
             damage[i].chunk - ref.first_chunk() < ref.chunk_count();
    };
    while (tensor < checkpoint.tensor_count() && !holds(checkpoint.tensor(tensor))) ++tensor;
    tensors.push_back(tensor);
  }
  // Of nodes that are tied, the first in node order: the one that reading names, too.
  std::vector<std::uint32_t> named(tensors.size(), ~std::uint32_t{0});  // nodes, by damage
  for (Walker walk(checkpoint.state()); walk.next();) {
    const auto ref = walk.node().tensor();
    if (!ref) continue;
    const auto first = std::lower_bound(tensors.begin(), tensors.end(), ref->number());
    for (auto i = static_cast<std::size_t>(first - tensors.begin());
         i < tensors.size() && tensors[i] == ref->number() && walk.node().number() < named[i];
         ++i) {
      named[i] = walk.node().number();
      errors[i].path = walk.path();
    }
  }
}

}  // namespace

VerifyPlan::VerifyPlan(Checkpoint checkpoint, std::uint64_t region_bytes)
    : checkpoint_(std::move(checkpoint)) {
  const Catalog& catalog = checkpoint_.catalog();
  if (catalog.has_hashes()) {
    regions_ = divide_into_regions(catalog.tables(), catalog.files(),
                                   catalog.format() == FileFormat::kEspalier, region_bytes);
    std::uint32_t tensor = 0;
    for (const Region& region : regions_) {
      tensor = table_tensor_of(catalog.tables(), region.first_chunk, tensor);
      first_tensors_.push_back(tensor);
    }
  }
}

std::uint64_t VerifyPlan::bytes() const {
  std::uint64_t total = 0;
  for (const Region& region : regions_) total += region.extent.length;
  return total;
}

Result<std::vector<Damage>> VerifyPlan::check_region(std::size_t i, ByteSpan bytes,
                                                     ChunkReader& reader) const {
  const Region& region = regions_[i];
  if (bytes.size() != region.extent.length) {
    return std::vector<Damage>{{ErrorCode::kTruncated, region.extent.offset + bytes.size(),
                                region.first_chunk, kEndsEarly}};
  }
  std::vector<Damage> damage;
  std::uint64_t position = region.extent.offset;
  const Tables& tables = checkpoint_.catalog().tables();
  std::uint32_t number = first_tensors_[i];
  for (std::uint32_t chunk = region.first_chunk; chunk < region.first_chunk + region.chunk_count;
       ++chunk) {
    const ChunkRecord& record = tables.chunks[chunk];
    const auto at = static_cast<std::size_t>(position - region.extent.offset);
    const auto padding = bytes.subspan(at, static_cast<std::size_t>(record.offset - position));
    const auto dirty = std::find_if(padding.begin(), padding.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (dirty != padding.end()) {
      const auto offset = position + static_cast<std::uint64_t>(dirty - padding.begin());
      damage.push_back({ErrorCode::kPaddingCorrupt, offset, chunk, kDirtyPadding});
    }
    const auto stored = bytes.subspan(at + padding.size(), record.stored);
    number = table_tensor_of(tables, chunk, number);
    const TensorRef tensor = checkpoint_.tensor(number);
    if (const auto opened = reader.open(tensor, chunk - tensor.first_chunk(), stored); !opened) {
      if (opened.error().code == ErrorCode::kOutOfMemory) return propagate(opened);
      damage.push_back({opened.error().code, record.offset, chunk, reason_of(opened.error())});
    }
    position = record.offset + record.stored;
  }
  return damage;
}

VerifyReport VerifyPlan::report(std::vector<Damage> damage) const {
  const Catalog& catalog = checkpoint_.catalog();
  VerifyReport report;
  report.has_hashes = catalog.has_hashes();
  report.bytes = bytes();
  for (const Region& region : regions_) report.chunks += region.chunk_count;
  report.error_count = damage.size();

  merge_sort_runs(damage, [](const Damage& a, const Damage& b) {
    return std::tie(a.chunk, a.offset) < std::tie(b.chunk, b.offset);
  });
  damage.resize(std::min(damage.size(), kMaxReportedErrors));
  for (const Damage& spot : damage) {
    const auto file = catalog.tables().chunks[spot.chunk].file;
    report.errors.push_back(
        {spot.code, spot.offset, {}, std::string(spot.reason), catalog.files()[file].name});
  }
  name_tensors(checkpoint_, damage, report.errors);
  for (const FileEntry& file : catalog.files()) {
    if (!file.problem) continue;
    ++report.error_count;
    report.errors.insert(report.errors.begin(), *file.problem);
  }

  if (auto digests = node_digests(catalog.tables()); !digests) {
    report.errors.push_back(std::move(digests.error()));
    ++report.error_count;
  } else if (catalog.tree_digest() && digests->front() != *catalog.tree_digest()) {
    report.errors.push_back({ErrorCode::kDigestMismatch,
                             kTreeDigestOffset,
                             {},
                             "the header's tree digest is not that of the tree; the file was not "
                             "written by a correct writer"});
    ++report.error_count;
  }
  return report;
}

Verify::Verify(Checkpoint checkpoint) : plan_(std::move(checkpoint)), gather_(extents_of(plan_)) {}

Result<void> Verify::feed(const Extent& extent, ByteSpan bytes) {
  return gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan region) {
    const auto found = plan_.check_region(i, region, reader_);
    if (!found) return Result<void>(propagate(found));
    damage_.insert(damage_.end(), found->begin(), found->end());
    return Result<void>{};
  });
}

Result<VerifyReport> Verify::finish() {
  if (!gather_.is_complete()) {
    return fail(ErrorCode::kIncomplete, "the verification still needs bytes of the file");
  }
  return plan_.report(std::move(damage_));
}

}  // namespace espalier
