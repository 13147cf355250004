#include "espalier/read/verify.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "espalier/base/merge_sort.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/format/access.h"
#include "espalier/format/digest.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/walker.h"

namespace espalier {
namespace {

// Whether the bytes of a file are not to be had, which says nothing about them.
bool is_missing_file(ErrorCode code) {
  return code == ErrorCode::kFileMissing || code == ErrorCode::kBaseMismatch ||
         code == ErrorCode::kNotARegularFile || code == ErrorCode::kIoError ||
         code == ErrorCode::kLimitExceeded;
}

GroupGather gather_of(const VerifyPlan& plan) {
  GroupGather gather;
  for (std::uint32_t i = 0; i < plan.regions().size(); ++i) {
    gather.add(plan.regions()[i].extent, plan.bases(i));
  }
  gather.start();
  return gather;
}

// Sets the key path of each error to that of its chunk's tensor. One walk finds all of them: a
// search for each would take hours on a badly damaged file of many tensors.
void name_tensors(const Checkpoint& checkpoint, std::span<const Damage> damage,
                  std::span<Error> errors) {
  std::vector<std::uint32_t> tensors;  // by damage; ascending
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
  // Tied nodes share a tensor: the report names the first in node order, as reading does.
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

std::string_view verdict_name(VerifyVerdict verdict) {
  switch (verdict) {
    case VerifyVerdict::kOk:
      return "ok";
    case VerifyVerdict::kStructureOnly:
      return "structure_only";
    case VerifyVerdict::kIncomplete:
      return "incomplete";
    case VerifyVerdict::kDamaged:
      break;
  }
  return "damaged";
}

VerifyVerdict VerifyReport::verdict() const {
  if (error_count > missing_files + missing_tensors) return VerifyVerdict::kDamaged;
  if (missing_files + missing_tensors > 0) return VerifyVerdict::kIncomplete;
  return has_hashes || checksums > 0 ? VerifyVerdict::kOk : VerifyVerdict::kStructureOnly;
}

VerifyPlan::VerifyPlan(Checkpoint checkpoint, std::uint64_t region_bytes, FileScope scope)
    : checkpoint_(std::move(checkpoint)), scope_(scope) {
  const Catalog& catalog = checkpoint_.catalog();
  if (catalog.has_hashes()) {
    regions_ = divide_into_regions(catalog, region_bytes, scope);
    std::uint32_t tensor = 0;
    if (!regions_.order.empty()) {
      for (std::uint32_t i = 0; i < catalog.tables().chunks.size(); ++i) {
        tensor = table_tensor_of(catalog.tables(), i, tensor);
        tensors_.push_back(tensor);
      }
    }
    tensor = 0;
    for (const Region& region : regions_.list) {
      tensor = tensor_of(chunk(region, 0), tensor);
      first_tensors_.push_back(tensor);
    }
  }
}

// The tensor of a chunk; `from` is that of one with a lower number.
std::uint32_t VerifyPlan::tensor_of(std::uint32_t chunk, std::uint32_t from) const {
  return tensors_.empty() ? table_tensor_of(checkpoint_.catalog().tables(), chunk, from)
                          : tensors_[chunk];
}

std::uint64_t VerifyPlan::bytes() const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < regions_.list.size(); ++i) total += bytes(i);
  return total;
}

std::uint64_t VerifyPlan::bytes(std::size_t i) const {
  std::uint64_t total = regions_.list[i].extent.length;
  for (const ChunkRecord& base : bases(i)) total += base.stored;
  return total;
}

std::span<const ChunkRecord> VerifyPlan::bases(std::size_t i) const {
  return checkpoint_.catalog().bases(chunk(regions_.list[i], 0));
}

std::vector<RegionChunk> VerifyPlan::region_chunks(std::size_t i) const {
  const Region& region = regions_.list[i];
  const auto records = checkpoint_.catalog().tables().chunks;
  std::vector<RegionChunk> chunks(region.chunk_count);
  std::uint32_t number = first_tensors_[i];
  for (std::uint32_t k = 0; k < region.chunk_count; ++k) {
    const std::uint32_t number_of_chunk = chunk(region, k);
    number = tensor_of(number_of_chunk, number);
    const TensorRef tensor = checkpoint_.tensor(number);
    chunks[k] = {records[number_of_chunk].offset,
                 stored_chunk(tensor, number_of_chunk - tensor.first_chunk())};
  }
  return chunks;
}

Result<std::vector<Damage>> VerifyPlan::check_region(std::size_t i, StoredLayers bytes,
                                                     ChunkReader& reader) const {
  const Region& region = regions_.list[i];
  const auto chunks = region_chunks(i);
  auto damage = espalier::check_region({region.extent.offset, region.extent.length, chunks}, bytes,
                                       reader.gate());
  if (!damage) return damage;
  for (Damage& spot : *damage) spot.chunk = chunk(region, spot.chunk);
  return damage;
}

// Puts the files that cannot be read before the damage, and those that are not there before these.
void VerifyPlan::add_files(VerifyReport& report) const {
  std::vector<Error> problems;
  std::vector<Error> unreadable;
  for (const FileEntry& file : checkpoint_.catalog().files()) {
    if (!file.problem) continue;
    (is_missing_file(file.problem->code) ? problems : unreadable).push_back(*file.problem);
  }
  report.missing_files = problems.size();
  problems.insert(problems.end(), std::make_move_iterator(unreadable.begin()),
                  std::make_move_iterator(unreadable.end()));
  report.error_count += problems.size();
  problems.insert(problems.end(), std::make_move_iterator(report.errors.begin()),
                  std::make_move_iterator(report.errors.end()));
  report.errors = std::move(problems);
}

// Of a patch in this file, `scope_` or a missing file may leave out a base. What lies in a file
// that is left out is nothing of this checkpoint's to check.
std::uint64_t VerifyPlan::unchecked() const {
  const Catalog& catalog = checkpoint_.catalog();
  const auto chunks = catalog.tables().chunks;
  const auto is_out = [&](const ChunkRecord& record) {
    return scope_ == FileScope::kOwn ? record.file != 0
                                     : catalog.files()[record.file].problem.has_value();
  };
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    const auto bases = catalog.bases(i);
    const bool is_whole = !is_out(chunks[i]);
    const bool is_unchecked =
        is_whole ? std::any_of(bases.begin(), bases.end(), is_out) : scope_ == FileScope::kAll;
    if (is_unchecked) total += chunks[i].stored;
  }
  return total;
}

VerifyReport VerifyPlan::report(std::vector<Damage> damage) const {
  const Catalog& catalog = checkpoint_.catalog();
  VerifyReport report;
  report.has_hashes = catalog.has_hashes();
  report.bytes = bytes();
  for (const Region& region : regions_.list) report.chunks += region.chunk_count;
  report.error_count = damage.size();

  merge_sort_runs(damage, [](const Damage& a, const Damage& b) {
    return std::tie(a.chunk, a.offset) < std::tie(b.chunk, b.offset);
  });
  damage.resize(std::min(damage.size(), kMaxReportedErrors));
  for (const Damage& spot : damage) {
    const bool is_base = spot.fault == Fault::kWrongBase;
    const ChunkRecord& record =
        is_base ? catalog.bases(spot.chunk)[spot.base] : catalog.tables().chunks[spot.chunk];
    report.errors.push_back({code_of(spot.fault),
                             is_base ? record.offset : spot.offset,
                             {},
                             std::string(message_of(spot.fault)),
                             catalog.files()[record.file].name});
  }
  name_tensors(checkpoint_, damage, report.errors);
  if (scope_ == FileScope::kAll) add_files(report);
  report.unchecked = unchecked();

  if (auto digests = node_digests(catalog.stored_tables()); !digests) {
    report.errors.push_back(std::move(digests.error()));
    ++report.error_count;
  } else if (catalog.tree_digest() && digests->front() != *catalog.tree_digest()) {
    report.errors.push_back({ErrorCode::kDigestMismatch,
                             kTreeDigestOffset,
                             {},
                             "the header's tree digest does not match the tree; the file was not "
                             "written by a correct writer"});
    ++report.error_count;
  }
  return report;
}

Verify::Verify(Checkpoint checkpoint) : plan_(std::move(checkpoint)), gather_(gather_of(plan_)) {}

Result<void> Verify::feed(const Extent& extent, ByteSpan bytes) {
  return gather_.feed(extent, bytes, [&](std::size_t i, StoredLayers region) {
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
