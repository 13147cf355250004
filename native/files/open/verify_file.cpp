#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "espalier/codec/chunk_gate.h"
#include "espalier/foreign/zip/checksum_plan.h"
#include "espalier/format/file_set.h"
#include "espalier/read/missing_tensors.h"
#include "espalier/read/verify.h"
#include "files/open/made_source.h"
#include "files/open/read_ahead.h"
#include "files/open/reading.h"
#include "files/os/about_file.h"
#include "files/os/out_of_memory.h"
#include "files/os/parallel.h"

namespace espalier {
Result<VerifyReport> CheckpointFile::verify(const ReadOptions& options, FileScope scope) const {
  return about_file(shared_->path, [&]() -> Result<VerifyReport> {
    if (!checkpoint_.catalog().has_hashes()) return verify_checksums(options);
    // Regions of a chunk or a little more: each thread holds one if the file is not mapped.
    const VerifyPlan plan(checkpoint_, kChunkBytes, scope);
    std::mutex mutex;
    std::vector<Damage> damage;
    std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
    Read read(options);
    read.expect(plan.bytes());
    ReadAhead ahead(*source_);
    for (std::size_t i = 0; i < plan.regions().size(); ++i) {
      ahead.add(plan.regions()[i].extent, plan.bases(i));
    }
    ahead.start();
    auto checked = parallel_for(plan.regions().size(), options_.threads,
                                [&](unsigned worker, std::size_t i) -> Result<void> {
                                  const Extent& extent = plan.regions()[i].extent;
                                  return read.chunk(plan.bytes(i), [&]() -> Result<void> {
                                    ahead.use(plan.bytes(i));
                                    ChunkBuffer& buffer = buffers[worker];
                                    const auto bytes = read_layers(extent, plan.bases(i), buffer,
                                                                   &CheckpointFile::read_stored);
                                    if (!bytes) return propagate(bytes);
                                    const auto found =
                                        plan.check_region(i, *bytes, buffer.state_->reader);
                                    if (!found) return propagate(found);
                                    const std::lock_guard lock(mutex);
                                    damage.insert(damage.end(), found->begin(), found->end());
                                    return {};
                                  });
                                });
    if (!checked) return propagate(checked);
    return plan.report(std::move(damage));
  });
}

// For formats of others: whatever checksums they have, and files that are made of compressed ones.
Result<VerifyReport> CheckpointFile::verify_checksums(const ReadOptions& options) const {
  const Catalog& catalog = checkpoint_.catalog();
  const ChecksumPlan plan(catalog, kChunkBytes);
  std::vector<std::uint32_t> crcs(plan.pieces().size());
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  Read read(options);
  const auto is_made = [](const FileEntry& file) {
    return file.maker && file.maker->finds_damage() && !file.problem && file.length > 0;
  };
  std::uint64_t made_bytes = 0;
  for (const FileEntry& file : catalog.files()) {
    if (is_made(file)) made_bytes += file.length;
  }
  read.expect(plan.bytes() + made_bytes);
  ReadAhead ahead(*source_);
  for (const Extent& piece : plan.pieces()) ahead.add(piece);
  ahead.start();
  auto checked = parallel_for(
      crcs.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Extent& piece = plan.pieces()[i];
        return read.chunk(piece.length, [&]() -> Result<void> {
          ahead.use(piece.length);
          const auto bytes = read_stored(piece, buffers[worker].state_->stored);
          if (!bytes) return propagate(bytes);
          crcs[i] = plan.crc(i, *bytes);
          return {};
        });
      });
  if (!checked) return propagate(checked);
  std::vector<Damage> damage;
  std::vector<Error> errors;
  plan.compare(crcs, damage, errors);
  // Those with a checksum.
  std::uint64_t checksums = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t unchecked_bytes = 0;
  for (std::uint32_t number = 0; number < catalog.files().size(); ++number) {
    const FileEntry& file = catalog.files()[number];
    if (!is_made(file)) continue;
    if (file.maker->has_checksum()) {
      ++checksums;
      checked_bytes += file.length;
    } else {
      unchecked_bytes += file.length;
    }
    auto ok = check_made_file(file, *source_, [&](std::uint64_t bytes) {
      return read.chunk(bytes, [] { return Result<void>{}; });
    });
    if (ok) continue;
    // Such an error says nothing about the file.
    if (ends_all(ok.error().code)) return propagate(ok);
    if (ok.error().file.empty()) ok.error().file = file.name;
    errors.push_back(std::move(ok.error()));
  }
  VerifyReport report = VerifyPlan(checkpoint_).report(std::move(damage));
  add_missing_tensors(checkpoint_, report);
  report.bytes = plan.bytes() + checked_bytes;
  report.checksums = plan.checksums() + checksums;
  report.unchecked += plan.unchecked() + unchecked_bytes;
  report.error_count += errors.size();
  errors.resize(std::min(errors.size(), kMaxReportedErrors));
  report.errors.insert(report.errors.end(), std::make_move_iterator(errors.begin()),
                       std::make_move_iterator(errors.end()));
  return report;
}

}  // namespace espalier
