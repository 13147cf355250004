// ONNX models as checkpoints: the initializers of the graph and the outputs of its constants, by
// the names that it has for them. docs/formats.md says what is refused.
#ifndef ESPALIER_FOREIGN_ONNX_OPENER_H_
#define ESPALIER_FOREIGN_ONNX_OPENER_H_

#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/onnx/parser.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether a file that begins with `front` is an ONNX model. The format has no magic: the first
/// field is the version, and all others are of a model.
bool looks_like_onnx(ByteSpan front, std::uint64_t file_size);

/// The machine that opens an ONNX model. It reads windows of the file and jumps over the bytes of
/// tensors. Short tensors whose numbers stand in another form are made at once. Besides the errors
/// of every opener, finish() returns those of OnnxParser and onnx_tables().
class OnnxOpener final : public StepOpener {
 public:
  explicit OnnxOpener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;
  [[nodiscard]] Result<void> parse();
  void fetch_short_tensors();
  void add_notes(OnnxModel& model) const;

  OnnxParser parser_;
  std::vector<std::byte> window_;
  enum class Stage : std::uint8_t { kFront, kWindow, kShortTensors, kDone };
  Stage stage_ = Stage::kFront;
  std::vector<std::byte> short_bytes_;
  std::vector<ByteSpan> fetched_;  // of each tensor, or empty
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_OPENER_H_
