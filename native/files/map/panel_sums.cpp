#include "files/map/panel_sums.h"

#include <algorithm>

#include "espalier/codec/hash.h"
#include "espalier/detail/catalog.h"

namespace espalier {
namespace {

// A chunk is read whole unless its runs have so many bytes on average: a read of a run costs as
// much as these bytes do.
constexpr std::size_t kMostRuns = kChunkBytes / 512;

PanelSums::Window chunk_at(std::uint64_t chunk, std::uint64_t bytes) {
  const std::uint64_t begin = chunk * kChunkBytes;
  return {begin, std::min(begin + kChunkBytes, bytes)};
}

}  // namespace

PanelSums::PanelSums(const TargetRecipe& recipe, std::uint64_t panel_bytes,
                     std::span<const Source> sources)
    : recipe_(recipe),
      panel_bytes_(panel_bytes),
      panels_((recipe.bytes() + panel_bytes - 1) / panel_bytes) {
  std::uint64_t rows = 0;
  for (const Source& source : sources) {
    sources_.emplace(source.leaf, Chunks{rows, source.bytes, {}});
    rows += chunk_count(source.bytes);
  }
  for (const TargetRecipe::Part& part : recipe.parts()) {
    const auto source = sources_.find(part.source);
    if (source != sources_.end()) source->second.parts.push_back(&part);
  }
  sums_.resize(static_cast<std::size_t>(rows * panels_));
  states_ = std::make_unique<std::atomic<State>[]>(static_cast<std::size_t>(rows));
}

std::uint64_t PanelSums::memory_for(std::uint64_t chunks, std::uint64_t panels) {
  return chunks * (panels * sizeof(std::uint64_t) + sizeof(std::atomic<State>));
}

PanelSums::Window PanelSums::panel(std::uint64_t number) const {
  return {number * panel_bytes_, std::min((number + 1) * panel_bytes_, recipe_.bytes())};
}

bool PanelSums::find_runs(const Chunks& source, const Window& chunk, std::uint64_t panel_number,
                          std::vector<Window>& runs, std::size_t& most) const {
  const Window window = panel(panel_number);
  for (const TargetRecipe::Part* part : source.parts) {
    const bool all = part->copy.for_each_source_run(chunk, window, [&](const Window& run) {
      if (!runs.empty() && runs.back().end == run.begin) {
        runs.back().end = run.end;
        return true;
      }
      if (most == 0) return false;
      --most;
      runs.push_back(run);
      return true;
    });
    if (!all) return false;
  }
  return true;
}

std::optional<PanelSums::Part> PanelSums::part(std::uint32_t leaf, std::uint64_t chunk,
                                               std::uint64_t panel_number) const {
  const auto found = sources_.find(leaf);
  if (found == sources_.end()) return std::nullopt;
  const Chunks& source = found->second;
  const std::uint64_t row = source.first_row + chunk;
  if (states_[row].load(std::memory_order_acquire) != kKnown) return std::nullopt;
  Part part;
  std::size_t most = kMostRuns;
  if (!find_runs(source, chunk_at(chunk, source.bytes), panel_number, part.runs, most)) {
    return std::nullopt;
  }
  part.sum = sums_[row * panels_ + panel_number];
  return part;
}

void PanelSums::take(std::uint32_t leaf, std::uint64_t chunk, ByteSpan bytes) {
  const auto found = sources_.find(leaf);
  if (found == sources_.end()) return;
  const Chunks& source = found->second;
  const std::uint64_t row = source.first_row + chunk;
  State unknown = kUnknown;
  if (!states_[row].compare_exchange_strong(unknown, kBusy)) return;
  const Window window = chunk_at(chunk, source.bytes);
  std::size_t most = kMostRuns;
  State state = kKnown;
  std::vector<Window> runs;
  for (std::uint64_t number = 0; number < panels_ && state == kKnown; ++number) {
    runs.clear();
    if (!find_runs(source, window, number, runs, most)) state = kShort;
    sums_[row * panels_ + number] = sum_of(runs, window.begin, bytes);
  }
  states_[row].store(state, std::memory_order_release);
}

std::uint64_t PanelSums::sum_of(std::span<const Window> runs, std::uint64_t begin, ByteSpan bytes) {
  if (runs.empty()) return 0;
  Hasher128 hasher;
  for (const Window& run : runs) {
    hasher.update(bytes.subspan(static_cast<std::size_t>(run.begin - begin),
                                static_cast<std::size_t>(run.end - run.begin)));
  }
  return hasher.hash().low;
}

bool PanelSums::pays() const {
  return std::all_of(sources_.begin(), sources_.end(), [&](const auto& source) {
    std::size_t most = kMostRuns;
    std::vector<Window> runs;
    for (std::uint64_t number = 0; number < panels_; ++number) {
      runs.clear();
      if (!find_runs(source.second, chunk_at(0, source.second.bytes), number, runs, most)) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace espalier
