// Opens a checkpoint of TensorFlow, from its index.
//
// docs/formats.md says what becomes of what was saved.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_OPENER_H_
#define ESPALIER_FOREIGN_TENSORFLOW_OPENER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/parts.h"
#include "espalier/foreign/tensorflow/sorted_table.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// The machine that opens an index and the shards beside it. Reads all of the index, then, of the
/// shards, the graph of objects, the strings and the variants alone. A shard that is missing is a
/// note, and its tensors are placeholders. Errors are those of SortedTable::read(), read_bundle()
/// and make_tensorflow_parts(), and kLimitExceeded.
class TensorFlowOpener final : public StepOpener {
 public:
  explicit TensorFlowOpener(const OpenOptions& options) : StepOpener(options) {}

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  [[nodiscard]] Result<void> read_index();
  [[nodiscard]] Result<void> want_shards();
  [[nodiscard]] Result<void> want_texts();
  [[nodiscard]] Result<void> make_tree();

  enum class Stage { kFront, kIndex, kShards, kTexts };
  Stage stage_ = Stage::kFront;
  std::vector<std::byte> bytes_;  // of the index
  std::optional<SortedTable> table_;
  OpenedBundle opened_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_OPENER_H_
