#include "espalier/mapped_checkpoint.h"

#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/map/mapped_trees.h"
#include "espalier/map/plan.h"
#include "espalier/read/to_value.h"
#include "files/map/map_targets.h"
#include "files/open/lazy_tensors.h"
#include "files/os/out_of_memory.h"

namespace espalier {

struct MappedCheckpoint::Shared {
  MappedTrees trees;
  std::vector<MapInput> inputs;
  std::optional<CheckpointFile> like;
  std::vector<std::optional<MapOrigin>> origins;  // by leaf
  MapTargets targets;
};

Result<MappedCheckpoint> MappedCheckpoint::make(const KeyMap& map, std::vector<MapInput> inputs,
                                                const MappedOptions& options) try {
  std::vector<MappedTrees::Input> trees_of;
  trees_of.reserve(inputs.size());
  for (const MapInput& input : inputs) {
    trees_of.push_back({input.file.checkpoint(), input.label});
  }
  auto trees =
      MappedTrees::make(map, std::move(trees_of), options.lift,
                        options.like ? std::optional(options.like->checkpoint()) : std::nullopt);
  if (!trees) return propagate(trees);
  std::vector<std::optional<MapOrigin>> origins;
  origins.reserve(trees->plan()->leaves().size());
  for (std::uint32_t leaf = 0; leaf < trees->plan()->leaves().size(); ++leaf) {
    const auto tensor = trees->node(leaf).tensor();
    origins.push_back(tensor ? std::optional(MapOrigin{trees->input_of(leaf), *tensor})
                             : std::nullopt);
  }
  MapTargets targets(trees->plan(), inputs, origins, options.targets);
  return MappedCheckpoint(std::make_shared<const Shared>(Shared{
      std::move(*trees), std::move(inputs), options.like, std::move(origins), std::move(targets)}));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

const MapPlan& MappedCheckpoint::plan() const { return *shared_->trees.plan(); }

const MapTargets& MappedCheckpoint::targets() const { return shared_->targets; }

const std::vector<MapInput>& MappedCheckpoint::inputs() const { return shared_->inputs; }

const std::optional<MapOrigin>& MappedCheckpoint::origin(std::uint32_t leaf) const {
  return shared_->origins[leaf];
}

Result<void> MappedCheckpoint::check(const std::atomic<bool>* cancel) const {
  if (auto ok = shared_->trees.check_scalars(); !ok) return ok;
  return shared_->targets.check(cancel);
}

Result<std::vector<MappedCheckpoint::Output>> MappedCheckpoint::outputs() const try {
  // One for each file: it is asked once for each of perhaps a million tensors.
  std::vector<LazyTensors> tensors;
  for (const MapInput& input : shared_->inputs) tensors.emplace_back(input.file);
  std::optional<LazyTensors> like;
  if (shared_->like) like.emplace(*shared_->like);
  const auto load = [&](std::size_t input, const NodeRef& node) {
    return to_value(node, input == MappedTrees::kLike ? *like : tensors[input]);
  };
  const auto produce = [this](std::size_t target) {
    return TensorData::produced(
        [targets = shared_->targets, target](std::uint64_t offset, MutableByteSpan out) {
          return targets.read(target, offset, out);
        });
  };
  return shared_->trees.outputs({load, produce});
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MappedCheckpoint::open(const OpenFileOptions& options) const try {
  auto all = outputs();
  if (!all) return propagate(all);
  auto note = metadata();
  if (!note) return propagate(note);
  return open_value(MappedTrees::joined(std::move(*all)), *note, options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Value> MappedCheckpoint::metadata() const try {
  return shared_->trees.metadata([this](std::size_t input) {
    const CheckpointFile& file = shared_->inputs[input].file;
    return file.load(file.metadata());
  });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
