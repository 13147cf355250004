// A verification behind the handle of abi.h.
#ifndef ESPALIER_WASM_VERIFICATION_H_
#define ESPALIER_WASM_VERIFICATION_H_

#include <cstdint>
#include <vector>

#include "abi.h"
#include "tree_handle.h"

#include "espalier/read/verify.h"

namespace espalier::abi {

static_assert(sizeof(Report) == 40);

class Verification {
 public:
  explicit Verification(const Tree& tree) : plan(tree.checkpoint, kRegionBytes) {}
  VerifyPlan plan;
  std::vector<Damage> damage;
  VerifyReport report;
  std::vector<ChunkTask> tasks;  // of the last espalier_verify_task()

 private:
  // Small regions: network reads come in small pieces, and several are in memory at once.
  static constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
};

inline Report report_of(const VerifyReport& report) {
  return {.has_hashes = report.has_hashes ? 1u : 0u,
          .listed = static_cast<std::uint32_t>(report.errors.size()),
          .chunks = report.chunks,
          .bytes = report.bytes,
          .errors = report.error_count,
          .unchecked = report.unchecked};
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_VERIFICATION_H_
