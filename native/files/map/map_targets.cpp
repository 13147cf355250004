#include "files/map/map_targets.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/dtype.h"
#include "espalier/map/map_error.h"
#include "espalier/map/target_recipe.h"
#include "files/map/panels.h"
#include "files/os/out_of_memory.h"
#include "files/os/parallel.h"
#include "files/os/pool.h"

namespace espalier {
namespace {

using Window = TargetRecipe::Window;

constexpr std::uint64_t kLeastMemory = std::uint64_t{8} << 20;
// A part of a target is gathered from its sources at once if that reads no more than so many times
// its bytes.
constexpr std::uint64_t kMostRead = 2;
// Recipes that are kept: those of the targets that threads work at.
constexpr std::size_t kRecipes = 16;
// Sums of panels take at most this share of the memory.
constexpr std::uint64_t kShareOfSums = 8;
// Sources whose panels have sums are read once to check them, and once for the panels.
constexpr std::uint64_t kPassesWithSums = 2;
// What a check compares at once.
constexpr std::uint64_t kCheckedBytes = kChunkBytes;

}  // namespace

struct MapTargets::Shared {
  using Recipe = PanelRecipe;

  Shared(std::shared_ptr<const MapPlan> the_plan, std::vector<MapInput> the_inputs,
         std::vector<std::optional<MapOrigin>> the_origins, const Options& options)
      : plan(std::move(the_plan)),
        inputs(std::move(the_inputs)),
        origins(std::move(the_origins)),
        memory(std::max(options.memory, kLeastMemory)),
        threads(options.threads),
        panels(most_panel_bytes(),
               [this](const Recipe& recipe, std::uint64_t panel, MutableByteSpan out) {
                 return make_panel(recipe, panel, out.data());
               }) {}

  const std::shared_ptr<const MapPlan> plan;
  const std::vector<MapInput> inputs;
  const std::vector<std::optional<MapOrigin>> origins;
  const std::uint64_t memory;
  const unsigned threads;
  Panels panels;

  Pool<CheckpointFile::ChunkBuffer> buffers;
  Pool<std::vector<std::byte>> scratches;
  std::mutex mutex;
  std::map<std::size_t, std::shared_ptr<const Recipe>> recipes;
  std::deque<std::size_t> recent;

  std::atomic<std::uint64_t> overflows = 0;
  std::atomic<std::uint64_t> inexact = 0;
  std::atomic<std::uint64_t> lost = 0;

  const MapTarget& target(std::size_t i) const { return plan->targets()[i]; }
  const MapLeaf& leaf(std::uint32_t i) const { return plan->leaves()[i]; }

  // The rest of the memory is that of the threads: for chunks that they read and write.
  std::uint64_t most_panel_bytes() const {
    return std::max(kChunkBytes, memory / (Panels::kCount + 1) / kChunkBytes * kChunkBytes);
  }

  std::shared_ptr<const Recipe> with_panels(TargetRecipe image) const {
    // Equal panels, of whole chunks.
    const std::uint64_t most = most_panel_bytes();
    const std::uint64_t count = std::max<std::uint64_t>(1, (image.bytes() + most - 1) / most);
    const std::uint64_t panel = chunk_count((image.bytes() + count - 1) / count) * kChunkBytes;
    auto recipe = std::make_shared<Recipe>(Recipe{std::move(image), panel, nullptr});
    recipe->sums = sums_of(*recipe);
    return recipe;
  }

  // Null unless the image has several panels whose sources can be read in parts.
  std::unique_ptr<PanelSums> sums_of(const Recipe& recipe) const {
    if (recipe.panels() <= kPassesWithSums || is_direct(recipe, recipe.panel(0))) return nullptr;
    std::map<std::uint32_t, PanelSums::Source> sources;
    std::uint64_t chunks = 0;
    for (const Recipe::Part& part : recipe.parts()) {
      if (part.source == MapPiece::kZeros || sources.count(part.source) != 0) continue;
      const MapOrigin& origin = *origins[part.source];
      if (!origin.tensor.raw_extent() || inputs[origin.input].file.source().is_remote()) {
        return nullptr;
      }
      const std::uint64_t bytes = origin.tensor.bytes();
      sources.emplace(part.source, PanelSums::Source{part.source, bytes});
      chunks += chunk_count(bytes);
      if (PanelSums::memory_for(chunks, recipe.panels()) > memory / kShareOfSums) return nullptr;
    }
    std::vector<PanelSums::Source> all;
    all.reserve(sources.size());
    for (const auto& source : sources) all.push_back(source.second);
    auto sums = std::make_unique<PanelSums>(recipe, recipe.panel_bytes, all);
    return sums->pays() ? std::move(sums) : nullptr;
  }

  std::shared_ptr<const Recipe> recipe_of(std::size_t number) {
    const std::lock_guard lock(mutex);
    const auto found = recipes.find(number);
    if (found != recipes.end()) return found->second;
    auto recipe = with_panels(TargetRecipe::of(*plan, target(number)));
    while (!recent.empty() &&
           (recent.size() == kRecipes || memory_of_sums(*recipe) > memory / kShareOfSums)) {
      recipes.erase(recent.front());
      recent.pop_front();
    }
    recipes.emplace(number, recipe);
    recent.push_back(number);
    return recipe;
  }

  // Bytes of the sums of one more recipe, and of those that are kept beside it.
  std::uint64_t memory_of_sums(const Recipe& added) const {
    if (!added.sums) return 0;
    std::uint64_t bytes = added.sums->memory();
    for (const auto& kept : recipes) bytes += kept.second->sums ? kept.second->sums->memory() : 0;
    return bytes;
  }

  // Calls `use` with every chunk of a source that has bytes of a window of it.
  template <class Use>
  Result<void> read_source(std::uint32_t source, const Window& wanted,
                           CheckpointFile::ChunkBuffer& buffer, const Use& use) const {
    if (wanted.begin >= wanted.end) return {};
    for (std::uint64_t i = wanted.begin / kChunkBytes; i * kChunkBytes < wanted.end; ++i) {
      const auto bytes = read_chunk(source, i, buffer);
      if (!bytes) return propagate(bytes);
      use(Window{i * kChunkBytes, i * kChunkBytes + bytes->size()}, bytes->data());
    }
    return {};
  }

  Result<ByteSpan> read_chunk(std::uint32_t source, std::uint64_t i,
                              CheckpointFile::ChunkBuffer& buffer) const {
    const MapOrigin& origin = *origins[source];
    const MapInput& input = inputs[origin.input];
    auto bytes = input.file.read_chunk(origin.tensor, static_cast<std::uint32_t>(i), buffer);
    if (!bytes && inputs.size() > 1 && bytes.error().file.empty()) bytes.error().file = input.name;
    return bytes;
  }

  // Bytes of chunks that a window of an image needs, and so are read for it.
  static std::uint64_t read_bytes(const Recipe& recipe, const Window& window) {
    std::uint64_t bytes = 0;
    for (const Recipe::Part* part : recipe.parts_in(window)) {
      const Window from = part->copy.source_for(window);
      if (from.begin >= from.end) continue;
      bytes += chunk_count(from.end) * kChunkBytes - from.begin / kChunkBytes * kChunkBytes;
    }
    return bytes;
  }

  static bool is_direct(const Recipe& recipe, const Window& window) {
    return read_bytes(recipe, window) <= kMostRead * (window.end - window.begin) + 2 * kChunkBytes;
  }

  Result<void> gather(const Recipe& recipe, const Window& window, std::byte* out) {
    recipe.fill_zeros(window, out);
    const auto buffer = buffers.borrow();
    for (const Recipe::Part* part : recipe.parts_in(window)) {
      auto ok = read_source(part->source, part->copy.source_for(window), *buffer,
                            [&](const Window& chunk, const std::byte* bytes) {
                              part->copy.copy(chunk, bytes, window, out);
                            });
      if (!ok) return ok;
    }
    return {};
  }

  // Reads each chunk of each source once, or what the panel needs of it.
  Result<void> make_panel(const Recipe& recipe, std::uint64_t number, std::byte* out) {
    const Window window = recipe.panel(number);
    recipe.fill_zeros(window, out);
    std::map<std::uint32_t, std::vector<const Recipe::Part*>> by_source;
    for (const Recipe::Part* part : recipe.parts_in(window))
      by_source[part->source].push_back(part);
    struct Job {
      const std::pair<const std::uint32_t, std::vector<const Recipe::Part*>>* source;
      std::uint64_t chunk;
    };
    std::vector<Job> jobs;
    for (const auto& source : by_source) {
      Window all{~std::uint64_t{0}, 0};
      for (const Recipe::Part* part : source.second) {
        const Window from = part->copy.source_for(window);
        if (from.begin >= from.end) continue;
        all = {std::min(all.begin, from.begin), std::max(all.end, from.end)};
      }
      for (std::uint64_t i = all.begin / kChunkBytes; i * kChunkBytes < all.end; ++i) {
        jobs.push_back({&source, i});
      }
    }
    return parallel_for(jobs.size(), threads, [&](unsigned, std::size_t i) -> Result<void> {
      const Job& job = jobs[i];
      const std::uint32_t source = job.source->first;
      const MapOrigin& origin = *origins[source];
      const std::uint64_t begin = job.chunk * kChunkBytes;
      const Window chunk{begin, std::min(begin + kChunkBytes, origin.tensor.bytes())};
      const auto& parts = job.source->second;
      if (std::none_of(parts.begin(), parts.end(),
                       [&](const Recipe::Part* part) { return part->copy.needs(chunk, window); })) {
        return {};
      }
      const auto copy_all = [&](const std::byte* bytes) {
        for (const Recipe::Part* part : parts) part->copy.copy(chunk, bytes, window, out);
      };
      if (recipe.sums) {
        const auto scratch = scratches.borrow();
        if (const auto bytes = read_part(recipe, source, chunk, number, *scratch)) {
          copy_all(bytes->data());
          return {};
        }
      }
      const auto buffer = buffers.borrow();
      const auto bytes = read_chunk(source, job.chunk, *buffer);
      if (!bytes) return propagate(bytes);
      if (recipe.sums) recipe.sums->take(source, job.chunk, *bytes);
      copy_all(bytes->data());
      return {};
    });
  }

  // What a panel needs of a chunk, at its place in it. Nothing if all of the chunk is to be read:
  // for the first time, or because it is not what it was then, so that its hash finds the error.
  std::optional<ByteSpan> read_part(const Recipe& recipe, std::uint32_t leaf_number,
                                    const Window& chunk, std::uint64_t panel,
                                    std::vector<std::byte>& scratch) const {
    const auto part = recipe.sums->part(leaf_number, chunk.begin / kChunkBytes, panel);
    if (!part) return std::nullopt;
    const MapOrigin& origin = *origins[leaf_number];
    const Source& source = inputs[origin.input].file.source();
    const Extent whole = *origin.tensor.raw_extent();
    const auto size = static_cast<std::size_t>(chunk.end - chunk.begin);
    ByteSpan bytes;
    if (const auto mapping = source.mapping(whole.file)) {
      bytes = mapping->subspan(static_cast<std::size_t>(whole.offset + chunk.begin), size);
    } else {
      scratch.resize(std::max(scratch.size(), size));
      for (const Window& run : part->runs) {
        const Extent extent{whole.file, whole.offset + run.begin, run.end - run.begin};
        const auto into =
            MutableByteSpan(scratch).subspan(static_cast<std::size_t>(run.begin - chunk.begin),
                                             static_cast<std::size_t>(extent.length));
        if (!source.copy(extent, into)) return std::nullopt;
      }
      bytes = ByteSpan(scratch).first(size);
    }
    if (PanelSums::sum_of(part->runs, chunk.begin, bytes) != part->sum) return std::nullopt;
    return bytes;
  }

  // The bytes of an image from `offset` on.
  Result<void> read_image(const std::shared_ptr<const Recipe>& recipe, std::uint64_t offset,
                          MutableByteSpan out) {
    const Window window{offset, offset + out.size()};
    if (is_direct(*recipe, window)) return gather(*recipe, window, out.data());
    return panels.read(recipe, offset, out);
  }

  Result<void> read_whole(std::uint32_t source, std::uint64_t offset, MutableByteSpan out) {
    const auto buffer = buffers.borrow();
    const Window window{offset, offset + out.size()};
    return read_source(source, window, *buffer, [&](const Window& chunk, const std::byte* bytes) {
      const std::uint64_t begin = std::max(chunk.begin, window.begin);
      const std::uint64_t end = std::min(chunk.end, window.end);
      if (begin >= end) return;
      std::memcpy(out.data() + (begin - window.begin), bytes + (begin - chunk.begin),
                  static_cast<std::size_t>(end - begin));
    });
  }

  void count(const MapRounding& rounding) {
    overflows += rounding.overflows;
    inexact += rounding.inexact;
  }

  // Elements [first, last) of a target whose numbers change, one by one.
  Result<void> read_computed(std::size_t number, std::uint64_t first, std::uint64_t last,
                             MutableByteSpan out) {
    const MapTarget& made = target(number);
    const auto recipe = recipe_of(number);
    const auto from = image_dtype(*plan, made);
    const std::uint64_t from_bytes = from ? dtype_bits(*from) / 8 : 1;
    const Window window{first * from_bytes, last * from_bytes};
    std::vector<std::byte> image(static_cast<std::size_t>(window.end - window.begin));
    if (auto ok = read_image(recipe, window.begin, image); !ok) return ok;
    count(compute_image(*plan, made, *recipe, first, image, out));
    return {};
  }

  Result<void> read_terms(std::size_t number, std::uint64_t first, std::uint64_t last,
                          MutableByteSpan out) {
    const MapTarget& made = target(number);
    std::vector<OperandElements> operands;
    std::vector<std::vector<std::byte>> memory_of;
    std::uint64_t needed = 0;
    for (const MapTerm& term : made.terms) {
      for (const MapOperand& operand : term.operands) {
        const DType dtype = leaf(operand.source).dtype;
        const std::uint64_t bytes = dtype_bits(dtype) / 8;
        const OperandRange range = elements_for(term, operand, first, last);
        // As packed elements and as doubles.
        needed += (range.end - range.begin) * (bytes + sizeof(double));
        if (needed > std::max(memory, kLeastMemory)) {
          return fail(ErrorCode::kLimitExceeded,
                      in_quotes(made.name) +
                          " is computed from more of its operands at once than " +
                          std::to_string(memory) + " bytes of memory hold; allow more");
        }
        std::vector<std::byte> packed(static_cast<std::size_t>((range.end - range.begin) * bytes));
        if (auto ok = read_whole(operand.source, range.begin * bytes, packed); !ok) return ok;
        memory_of.push_back(std::move(packed));
        operands.push_back({dtype, range.begin, memory_of.back()});
      }
    }
    count(compute_terms(made.terms, operands, first, made.dtype, out));
    return {};
  }

  Result<void> read(std::size_t number, std::uint64_t offset, MutableByteSpan out) {
    const MapTarget& made = target(number);
    if (out.empty()) return {};
    if (made.source != MapPiece::kZeros) return read_whole(made.source, offset, out);
    if (made.terms.empty() && !changes_numbers(*plan, made))
      return read_image(recipe_of(number), offset, out);
    const std::uint64_t size = dtype_bits(made.dtype) / 8;
    const std::uint64_t first = offset / size;
    const std::uint64_t last = (offset + out.size() + size - 1) / size;
    const auto read_elements = [&](MutableByteSpan into) {
      return made.terms.empty() ? read_computed(number, first, last, into)
                                : read_terms(number, first, last, into);
    };
    if (offset % size == 0 && out.size() % size == 0) return read_elements(out);
    std::vector<std::byte> whole(static_cast<std::size_t>((last - first) * size));
    if (auto ok = read_elements(whole); !ok) return ok;
    std::memcpy(out.data(), whole.data() + (offset - first * size), out.size());
    return {};
  }

  Result<void> check_equal(const MapEqual& equal, const std::atomic<bool>* cancel) {
    const std::uint64_t bytes = origins[equal.second]->tensor.bytes();
    std::shared_ptr<const Recipe> recipe;
    if (equal.piece) {
      const MapLeaf& second = leaf(equal.second);
      recipe =
          with_panels({std::span(&*equal.piece, 1), elements_of(second.shape), unit_of(second)});
    }
    std::vector<std::byte> first;
    std::vector<std::byte> second;
    for (std::uint64_t at = 0; at < bytes; at += kCheckedBytes) {
      if (cancel != nullptr && *cancel) return cancelled();
      const auto size = static_cast<std::size_t>(std::min(kCheckedBytes, bytes - at));
      first.resize(size);
      second.resize(size);
      auto ok = recipe ? read_image(recipe, at, first) : read_whole(equal.first, at, first);
      if (ok) ok = read_whole(equal.second, at, second);
      if (!ok) return ok;
      if (first == second) continue;
      const auto differs = std::mismatch(first.begin(), first.end(), second.begin());
      const MapUnit unit = unit_of(leaf(equal.second));
      const std::uint64_t element =
          (at + static_cast<std::uint64_t>(differs.first - first.begin())) / unit.bytes *
          unit.elements;
      return fail(ErrorCode::kMapData, "rule " + std::to_string(equal.rule + 1) + ": " +
                                           in_quotes(leaf(equal.first).name) + " and " +
                                           in_quotes(leaf(equal.second).name) +
                                           " are to be one tensor but differ from element " +
                                           std::to_string(element) + " on");
    }
    return {};
  }

  Result<void> check_lost(const MapLost& loss, const std::atomic<bool>* cancel) {
    // The lost elements as a tensor of their own.
    MapPiece packed = loss.piece;
    std::uint64_t elements = 1;
    for (std::size_t i = packed.loops.size(); i-- > 0;) {
      packed.loops[i].to = static_cast<std::int64_t>(elements);
      elements *= packed.loops[i].count;
    }
    packed.to = 0;
    const MapUnit unit = unit_of(leaf(loss.source));
    const auto recipe = with_panels({std::span(&packed, 1), elements, unit});
    std::vector<std::byte> bytes;
    for (std::uint64_t at = 0; at < recipe->bytes(); at += kCheckedBytes) {
      if (cancel != nullptr && *cancel) return cancelled();
      bytes.resize(static_cast<std::size_t>(std::min(kCheckedBytes, recipe->bytes() - at)));
      if (auto ok = read_image(recipe, at, bytes); !ok) return ok;
      for (std::size_t i = 0; i < bytes.size(); i += unit.bytes) {
        const auto element = std::span(bytes).subspan(i, unit.bytes);
        if (std::all_of(element.begin(), element.end(),
                        [](std::byte byte) { return byte == std::byte{0}; })) {
          continue;
        }
        if (loss.must_be_zero) {
          return fail(ErrorCode::kMapData,
                      "rule " + std::to_string(loss.rule + 1) + ": " +
                          in_quotes(leaf(loss.source).name) +
                          " has a number other than 0 where the map says 'zeros', at element " +
                          std::to_string((at + i) / unit.bytes * unit.elements) + " of those");
        }
        lost += unit.elements;
      }
    }
    return {};
  }

  static Result<void> cancelled() {
    return fail(ErrorCode::kCancelled, "the tensors were not compared to their end");
  }
};

MapTargets::MapTargets(std::shared_ptr<const MapPlan> plan, std::vector<MapInput> inputs,
                       std::vector<std::optional<MapOrigin>> origins, const Options& options)
    : shared_(std::make_shared<Shared>(std::move(plan), std::move(inputs), std::move(origins),
                                       options)) {}

std::uint64_t MapTargets::bytes(std::size_t target) const {
  const MapTarget& made = shared_->target(target);
  if (made.source != MapPiece::kZeros) return shared_->origins[made.source]->tensor.bytes();
  if (!made.terms.empty() || changes_numbers(*shared_->plan, made)) {
    return dtype_bits(made.dtype) / 8 * elements_of(made.shape);
  }
  return shared_->recipe_of(target)->bytes();
}

Result<void> MapTargets::read(std::size_t target, std::uint64_t offset, MutableByteSpan out) const
    try {
  return shared_->read(target, offset, out);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

std::uint64_t MapTargets::passes(std::size_t target) const {
  const MapTarget& made = shared_->target(target);
  if (made.pieces.empty()) return 1;
  const auto recipe = shared_->recipe_of(target);
  const Window first{0, std::min<std::uint64_t>(recipe->bytes(), 2 * kChunkBytes)};
  if (Shared::is_direct(*recipe, first)) return 1;
  if (recipe->sums) return kPassesWithSums;
  return std::max<std::uint64_t>(1, recipe->panels());
}

Result<void> MapTargets::check(const std::atomic<bool>* cancel) const try {
  shared_->lost = 0;
  for (const MapEqual& equal : shared_->plan->equals()) {
    if (!shared_->leaf(equal.first).is_tensor || !shared_->leaf(equal.second).is_tensor) continue;
    if (auto ok = shared_->check_equal(equal, cancel); !ok) return ok;
  }
  for (const MapLost& loss : shared_->plan->losses()) {
    if (auto ok = shared_->check_lost(loss, cancel); !ok) return ok;
  }
  return {};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

std::uint64_t MapTargets::lost_elements() const { return shared_->lost; }

MapRounding MapTargets::rounding() const { return {shared_->overflows, shared_->inexact}; }

}  // namespace espalier
