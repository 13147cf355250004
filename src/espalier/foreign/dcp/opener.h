// Opens a checkpoint of torch.distributed.checkpoint, from its file .metadata.
//
// docs/formats.md says what becomes of what was saved.
#ifndef ESPALIER_FOREIGN_DCP_OPENER_H_
#define ESPALIER_FOREIGN_DCP_OPENER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "espalier/foreign/dcp/item.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// The machine that opens .metadata and the files that it names. The ends of thousands of items are
/// wanted at the same time, so a usual checkpoint takes one round of requests after the metadata,
/// and larger ones one for each kBatchItems. A file that is missing is a note, and its tensors are
/// placeholders. Errors are those of read_dcp_metadata() and join_dcp(), and kLimitExceeded.
class DcpOpener final : public StepOpener {
 public:
  explicit DcpOpener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  [[nodiscard]] Result<void> read_metadata();
  void order_items();
  [[nodiscard]] Result<void> go_on();
  std::optional<Error> find_damage();
  [[nodiscard]] Result<bool> go_on_with(std::uint32_t number, DcpItemOpener& opener);

  enum class Stage { kFront, kMetadata, kItems };
  Stage stage_ = Stage::kFront;
  std::vector<std::byte> bytes_;  // of .metadata
  Notes notes_;
  DcpMetadata metadata_;
  std::vector<OpenedItem> items_;
  // Those to open, in the order of their bytes, and how many have been begun.
  std::vector<std::uint32_t> order_;
  std::size_t begun_ = 0;
  struct Open {
    std::uint32_t item = 0;
    std::unique_ptr<DcpItemOpener> opener;
  };
  std::vector<Open> open_;  // of this batch
  bool has_wanted_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_DCP_OPENER_H_
