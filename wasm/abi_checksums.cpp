// The part of abi.h that compares the checksums which other formats have in place of hashes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "abi.h"
#include "tree_handle.h"
#include "verification.h"

#include "espalier/foreign/zip/checksum_plan.h"
#include "espalier/format/file_set.h"
#include "espalier/read/missing_tensors.h"

namespace espalier::abi {

static_assert(sizeof(ChecksumInfo) == 16);

class Checksums {
 public:
  explicit Checksums(const Tree& tree)
      : plan(tree.checkpoint.catalog(), kPieceBytes), crcs(plan.pieces().size()) {}
  ChecksumPlan plan;
  std::vector<std::uint32_t> crcs;  // of its pieces

 private:
  // As of a Verification.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
};

std::uint32_t espalier_has_checksums(Tree* tree) {
  const auto files = tree->checkpoint.catalog().files();
  const auto is_of_contents = [](const Checksum& checksum) { return !checksum.is_of_header; };
  return std::any_of(files.begin(), files.end(),
                     [&](const FileEntry& file) {
                       return std::any_of(file.checksums.begin(), file.checksums.end(),
                                          is_of_contents) ||
                              (file.maker && file.maker->has_checksum());
                     })
             ? 1
             : 0;
}

Checksums* espalier_checksums(Tree* tree) { return new Checksums(*tree); }

void espalier_checksums_info(Checksums* checksums, ChecksumInfo* out) {
  *out = {.pieces = static_cast<std::uint32_t>(checksums->crcs.size()),
          .checksums = static_cast<std::uint32_t>(checksums->plan.checksums()),
          .unchecked = checksums->plan.unchecked()};
}

Status espalier_checksums_piece(Checksums* checksums, std::uint32_t i, Extent* out) {
  if (i >= checksums->crcs.size()) return no_such("piece", i);
  *out = extent_of(checksums->plan.pieces()[i]);
  return 0;
}

std::uint32_t espalier_checksums_kind(Checksums* checksums, std::uint32_t i) {
  return i < checksums->crcs.size() ? static_cast<std::uint32_t>(checksums->plan.kind(i)) : 0;
}

Status espalier_checksums_feed(Checksums* checksums, std::uint32_t i, std::uint32_t crc) {
  if (i >= checksums->crcs.size()) return no_such("piece", i);
  checksums->crcs[i] = crc;
  return 0;
}

void espalier_checksums_finish(Checksums* checksums, Verification* verification, Report* out) {
  std::vector<Error> errors;  // outside of tensors
  checksums->plan.compare(checksums->crcs, verification->damage, errors);
  VerifyReport& report = verification->report;
  report = verification->plan.report(std::move(verification->damage));
  add_missing_tensors(verification->plan.checkpoint(), report);
  report.bytes = checksums->plan.bytes();
  report.error_count += errors.size();
  for (Error& error : errors) {
    if (report.errors.size() == kMaxReportedErrors) break;
    report.errors.push_back(std::move(error));
  }
  *out = report_of(report);
}

void espalier_checksums_free(Checksums* checksums) { delete checksums; }

}  // namespace espalier::abi
