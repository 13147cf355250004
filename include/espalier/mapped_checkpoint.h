// What a key map makes of checkpoints: planned and proved before a tensor is read, then saved as a
// stream in bounded memory.
//
//   Result<KeyMap> map = KeyMap::parse(text);
//   auto mapped = MappedCheckpoint::make(*map, {{.file = *file}});
//   if (!mapped) return report(mapped.error());      // names the rule, the tensors and the mend
//   if (auto ok = mapped->check(); !ok) return report(ok.error());
//   auto outputs = mapped->outputs();
//   if (!outputs) return report(outputs.error());
//   auto metadata = mapped->metadata();
//   if (!metadata) return report(metadata.error());
//   auto saved = save(path, outputs->front().state, {.metadata = *metadata});
#ifndef ESPALIER_MAPPED_CHECKPOINT_H_
#define ESPALIER_MAPPED_CHECKPOINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/key_map.h"
#include "espalier/value.h"

namespace espalier {

class MapPlan;
class MapTargets;

/// A checkpoint that a map reads.
struct MapInput {
  CheckpointFile file;
  /// The label of its names, "lora" of "lora::layers.0.weight"; empty for the main one.
  std::string label = {};
  /// What errors and the ledger call it.
  std::string name = {};
};

/// Where the bytes of a leaf are.
struct MapOrigin {
  /// The number of the input.
  std::size_t input = 0;
  TensorRef tensor;
};

struct MapTargetOptions {
  /// Bytes for panels and what is read at once; a larger value reads the sources less often. At
  /// least 8 MiB are taken.
  std::uint64_t memory = std::uint64_t{256} << 20;
  /// Threads that make one panel; 0 uses every CPU. The library's own: others may wait for the
  /// panel, on all threads that a program has.
  unsigned threads = 0;
};

struct MappedOptions {
  LiftOptions lift = {};
  MapTargetOptions targets = {};
  /// A checkpoint with the tree that is to be made: its containers, key kinds, dtypes and shapes.
  /// Its tensors may be placeholders, and are not read.
  std::optional<CheckpointFile> like = std::nullopt;
};

/// A plan over open files. Cheap to copy; copies share everything. Const use is thread-safe.
class MappedCheckpoint {
 public:
  /// Plans what `map` makes of the inputs, whose names together are distinct. Errors, each
  /// with a sentence that names the rule and what is wrong, are those from kMapInvalid to
  /// kMapNotInvertible, kMapData and kNameCollision; kMapTemplate if that is not what `like` has.
  [[nodiscard]] static Result<MappedCheckpoint> make(const KeyMap& map,
                                                     std::vector<MapInput> inputs,
                                                     const MappedOptions& options = {});

  /// For the library's own programs: no public header defines these two types.
  const MapPlan& plan() const;
  const MapTargets& targets() const;
  const std::vector<MapInput>& inputs() const;
  /// The place of a leaf of the plan; nothing for one that is no tensor.
  const std::optional<MapOrigin>& origin(std::uint32_t leaf) const;

  /// Checks what only the tensors can tell: those that must be equal, and `zeros` that must be
  /// zero. Reads them. kMapData, with both names and the first element; kCancelled.
  [[nodiscard]] Result<void> check(const std::atomic<bool>* cancel = nullptr) const;

  using Output = MapOutput;
  /// The states. Tensors are made when a save asks for them, or, if they are renamed alone, taken
  /// over as they are (SaveOptions::carry). Names become keys of a flat dict or of nested ones, as
  /// the map's side says; what the map keeps stays where it was, and positions of lists that are
  /// taken become null. kNameCollision if a name is also a part of another one.
  [[nodiscard]] Result<std::vector<Output>> outputs() const;

  /// All of it as an open checkpoint, whose tensors are made when they are read. Several labels are
  /// the keys of a dict. See open_value().
  [[nodiscard]] Result<CheckpointFile> open(const OpenFileOptions& options = {}) const;

  /// The metadata of the inputs; where several have a key, the first one counts. "espalier.map" is
  /// a JSON text: the map's name and hash, the direction, the sizes that were set, under "lora" the
  /// adapter in the words of PEFT's adapter_config.json, and under "before" what it was in the
  /// input.
  [[nodiscard]] Result<Value> metadata() const;

 private:
  struct Shared;
  explicit MappedCheckpoint(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<const Shared> shared_;
};

}  // namespace espalier

#endif  // ESPALIER_MAPPED_CHECKPOINT_H_
