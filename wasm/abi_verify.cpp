// The part of abi.h that verifies.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/read/verify.h"

namespace espalier::abi {

static_assert(sizeof(Report) == 32);

class Verification {
 public:
  explicit Verification(Tree& verified) : tree(verified), plan(verified.checkpoint, kRegionBytes) {}
  Tree& tree;
  VerifyPlan plan;
  std::vector<Damage> damage;
  VerifyReport report;

 private:
  // What comes over a network comes in small pieces, and several are in memory at once.
  static constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
};

Verification* espalier_verify(Tree* tree) { return new Verification(*tree); }

std::uint32_t espalier_verify_regions(Verification* verification) {
  return static_cast<std::uint32_t>(verification->plan.regions().size());
}

Status espalier_verify_region(Verification* verification, std::uint32_t i, Extent* out) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  *out = extent_of(verification->plan.regions()[i].extent);
  return 0;
}

Status espalier_verify_feed(Verification* verification, std::uint32_t i, const std::byte* bytes,
                            std::uint32_t length) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  auto found =
      verification->plan.check_region(i, span_of(bytes, length), verification->tree.reader);
  if (!found) return set_failure(std::move(found.error()));
  verification->damage.insert(verification->damage.end(), found->begin(), found->end());
  return 0;
}

std::uint32_t espalier_verify_damaged(Verification* verification) {
  return static_cast<std::uint32_t>(verification->damage.size());
}

Status espalier_verify_finish(Verification* verification, Report* out) {
  verification->report = verification->plan.report(std::move(verification->damage));
  const VerifyReport& report = verification->report;
  *out = {.has_hashes = report.has_hashes ? 1u : 0u,
          .listed = static_cast<std::uint32_t>(report.errors.size()),
          .chunks = report.chunks,
          .bytes = report.bytes,
          .errors = report.error_count};
  return 0;
}

Status espalier_verify_error(Verification* verification, std::uint32_t i, Failure* out) {
  if (i >= verification->report.errors.size()) return no_such("error", i);
  *out = failure_of(verification->report.errors[i]);
  return 0;
}

void espalier_verify_free(Verification* verification) { delete verification; }

}  // namespace espalier::abi
