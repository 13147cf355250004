// Opens files that begin with a pickle: those of PyTorch before 1.6, and plain ones.
#ifndef ESPALIER_FOREIGN_TORCH_PICKLE_OPENER_H_
#define ESPALIER_FOREIGN_TORCH_PICKLE_OPENER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/common/kept_bytes.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/foreign/torch/legacy_file.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether `front` begins with a pickle of protocol 2 or later.
bool looks_like_pickle(ByteSpan front, std::uint64_t file_size);

/// The machine that opens such a file. A pickle does not tell its length: it is run as far as it is
/// at hand, and eight times more is wanted each time, up to Limits::pickle_bytes. A plain pickle
/// must be all of its file.
class PickleOpener final : public StepOpener {
 public:
  explicit PickleOpener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  [[nodiscard]] Result<void> want_more();
  [[nodiscard]] Result<void> parse_legacy_file();
  [[nodiscard]] Result<void> parse_plain();

  std::vector<std::byte> pickles_;  // the file, as far as it is at hand
  std::optional<LegacyFile> legacy_;
  std::optional<PickleGraph> plain_;
  std::vector<std::byte> counts_;  // of the elements of each storage
  KeptBytes kept_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_PICKLE_OPENER_H_
