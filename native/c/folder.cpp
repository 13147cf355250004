// Folders of checkpoints.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "c/handles.h"

#include "espalier/checkpoint_dir.h"

namespace espalier::c {
namespace {

Retention retention_of(const espalier_dir_options& given) {
  Retention keep;
  if (given.keep_last != 0) keep.last = static_cast<std::size_t>(given.keep_last);
  keep.every = given.keep_every;
  if (given.best_metric != nullptr) {
    keep.best = Best{.metric = given.best_metric,
                     .order = given.best_is_greatest != 0 ? Best::Order::kMax : Best::Order::kMin,
                     .count = std::max(given.best_count, 1u)};
  }
  return keep;
}

}  // namespace
}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_status espalier_dir_open(const char* folder, const espalier_dir_options* options,
                                  espalier_dir** out, espalier_error** error) {
  return guarded(error, Arguments().need(folder).result(out), [&]() -> Result<void> {
    const auto given = c::take(options);
    if (!given) return propagate(given);
    const auto open = c::options_of(given->open);
    if (!open) return propagate(open);
    CheckpointDirOptions how;
    how.keep.reset();
    if (given->keep_all == 0) how.keep = c::retention_of(*given);
    how.incremental = given->incremental != 0;
    how.open = *open;
    auto dir = CheckpointDir::open(folder, how);
    if (!dir) return propagate(dir);
    *out = new espalier_dir{std::move(*dir)};
    return {};
  });
}

espalier_status espalier_dir_save(const espalier_dir* dir, uint64_t step,
                                  const espalier_value* state, const espalier_save_options* options,
                                  espalier_error** error) {
  return guarded(error, Arguments().need(dir).need_value(state), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    return how ? dir->dir.save(step, state->value, *how) : propagate(how);
  });
}

espalier_status espalier_dir_save_async(const espalier_dir* dir, uint64_t step,
                                        const espalier_value* state, int borrows,
                                        const espalier_save_options* options, espalier_saving** out,
                                        espalier_error** error) {
  return guarded(error, Arguments().need(dir).need_value(state).result(out), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    *out = c::saving_of(dir->dir.save_async(step, state->value, c::snapshot_of(borrows), *how));
    return {};
  });
}

espalier_status espalier_dir_latest(const espalier_dir* dir, const espalier_read_options* options,
                                    uint64_t* step, espalier_file** out, espalier_error** error) {
  return guarded(error, Arguments().need(dir).need(step).result(out), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    auto latest = dir->dir.latest(*how);
    if (!latest) return propagate(latest);
    if (!*latest) return {};
    *out = new espalier_file{std::move((*latest)->file)};
    *step = (*latest)->step;
    return {};
  });
}

espalier_status espalier_dir_steps(const espalier_dir* dir, uint64_t* steps, size_t capacity,
                                   size_t* count, espalier_error** error) {
  return guarded(error, Arguments().need(dir).need({steps, capacity}).need(count),
                 [&]() -> Result<void> {
                   const auto all = dir->dir.steps();
                   if (!all) return propagate(all);
                   std::copy_n(all->begin(), std::min(capacity, all->size()), steps);
                   *count = all->size();
                   return {};
                 });
}

size_t espalier_dir_path(const espalier_dir* dir, uint64_t step, char* out, size_t out_size) {
  if (out != nullptr && out_size > 0) *out = '\0';
  if (dir == nullptr) return 0;
  try {
    const std::string path = dir->dir.path(step).text();
    if (out != nullptr && out_size > 0) {
      const std::size_t count = std::min(out_size - 1, path.size());
      std::memcpy(out, path.data(), count);
      out[count] = '\0';
    }
    return path.size();
  } catch (...) {
    return 0;
  }
}

espalier_status espalier_dir_problems(const espalier_dir* dir, espalier_report** out,
                                      espalier_error** error) {
  return guarded(error, Arguments().need(dir).result(out), [&]() -> Result<void> {
    VerifyReport report;
    report.errors = dir->dir.problems();
    report.error_count = report.errors.size();
    *out = c::report_of(std::move(report));
    return {};
  });
}

espalier_status espalier_dir_lock(const espalier_dir* dir, espalier_error** error) {
  return guarded(error, Arguments().need(dir), [&] { return dir->dir.lock(); });
}

void espalier_dir_unlock(const espalier_dir* dir) {
  if (dir != nullptr) dir->dir.unlock();
}

void espalier_dir_free(espalier_dir* dir) { delete dir; }
