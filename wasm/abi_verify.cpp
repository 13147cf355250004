// The part of abi.h that plans verifications and reports on them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "task.h"
#include "tree_handle.h"
#include "verification.h"

#include "espalier/read/verify.h"

namespace espalier::abi {

static_assert(sizeof(RegionTask) == 24 && offsetof(RegionTask, chunks) == 16);
static_assert(sizeof(DamagedSpot) == 16);

Verification* espalier_verify(Tree* tree) { return new Verification(*tree); }

std::uint32_t espalier_verify_regions(Verification* verification) {
  return static_cast<std::uint32_t>(verification->plan.regions().size());
}

Status espalier_verify_region(Verification* verification, std::uint32_t i, Extent* out) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  *out = extent_of(verification->plan.regions()[i].extent);
  return 0;
}

std::uint32_t espalier_verify_base(Verification* verification, std::uint32_t i, std::uint32_t base,
                                   PlannedBase* out) {
  if (i >= verification->plan.regions().size()) return 0;
  const auto bases = verification->plan.bases(i);
  if (base >= bases.size()) return 0;
  *out = planned_base(bases[base]);
  return 1;
}

Status espalier_verify_task(Verification* verification, std::uint32_t i, RegionTask* out) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  verification->tasks.clear();
  for (const RegionChunk& chunk : verification->plan.region_chunks(i)) {
    verification->tasks.push_back(task_of(chunk.offset, chunk.chunk));
  }
  const espalier::Extent& extent = verification->plan.regions()[i].extent;
  *out = {extent.offset, extent.length, verification->tasks.data(),
          static_cast<std::uint32_t>(verification->tasks.size())};
  return 0;
}

Status espalier_verify_damage(Verification* verification, std::uint32_t i, const DamagedSpot* spots,
                              std::uint32_t count) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  const Region& region = verification->plan.regions()[i];
  for (const DamagedSpot& spot : std::span(spots, count)) {
    if (spot.chunk >= region.chunk_count) return no_such("chunk", spot.chunk);
    const std::uint32_t fault = spot.fault & 0xFFu;
    const std::uint32_t base = spot.fault >> 8;
    if (fault > static_cast<std::uint32_t>(kLastFault)) return no_such("fault", fault);
    const bool is_base = fault == static_cast<std::uint32_t>(Fault::kWrongBase);
    if (is_base ? base >= verification->plan.bases(i).size() : base != 0) {
      return no_such("base", base);
    }
    verification->damage.push_back({static_cast<Fault>(fault), spot.offset,
                                    verification->plan.chunk(region, spot.chunk), base});
  }
  return 0;
}

std::uint32_t espalier_verify_damaged(Verification* verification) {
  return static_cast<std::uint32_t>(verification->damage.size());
}

Status espalier_verify_finish(Verification* verification, Report* out) {
  verification->report = verification->plan.report(std::move(verification->damage));
  *out = report_of(verification->report);
  return 0;
}

Status espalier_verify_error(Verification* verification, std::uint32_t i, Failure* out) {
  if (i >= verification->report.errors.size()) return no_such("error", i);
  *out = failure_of(verification->report.errors[i]);
  return 0;
}

void espalier_verify_free(Verification* verification) { delete verification; }

}  // namespace espalier::abi
