// Opens a model in several files as one checkpoint, from the index that names them.
//
// The state is a dict of all tensors, in the order of the index. docs/formats.md says what becomes
// of metadata, and of files that are missing.
#ifndef ESPALIER_FOREIGN_SHARDS_OPENER_H_
#define ESPALIER_FOREIGN_SHARDS_OPENER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/foreign/shards/index.h"
#include "espalier/foreign/shards/joined_shards.h"
#include "espalier/read/gather.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// The machine that opens an index and the files that it names. A machine of its own opens each
/// file, as if that were opened by itself; many are asked for at the same time. A file that cannot
/// be opened is a note, and its tensors are placeholders. Besides the errors of every opener:
/// kForeignInvalid if the index is not one, and kLimitExceeded, which files cause, too.
class ShardsOpener final : public OpeningMachine {
 public:
  /// Makes the machine for one file.
  using MakeMachine = std::unique_ptr<OpeningMachine> (*)(const OpenOptions& options);

  ShardsOpener(const OpenOptions& options, MakeMachine make_machine);

  const WantedFiles* wanted_files() const override;
  [[nodiscard]] Result<void> answer(std::uint32_t number,
                                    const Result<std::uint64_t>& size) override;
  std::span<const Extent> needs() const override;
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes) override;
  [[nodiscard]] Result<Checkpoint> finish() override;

 private:
  [[nodiscard]] Result<void> fail_with(Error error);
  [[nodiscard]] Result<void> read_index();
  [[nodiscard]] Result<void> go_on(std::uint32_t shard, Result<void> fed);
  [[nodiscard]] Result<void> give_up(std::uint32_t shard, Error error);
  void copy_needs(std::uint32_t shard, std::vector<Extent>& to) const;
  void add_needs();
  void replace_needs(std::uint32_t shard);

  OpenOptions options_;
  MakeMachine make_machine_;
  std::string text_;
  Gather gather_;  // of the index
  std::optional<ShardIndex> index_;
  WantedFiles wanted_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<OpeningMachine>> machines_;  // while they need bytes
  std::vector<Extent> needs_;                              // of shards before `next_`
  std::size_t next_ = 0;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_OPENER_H_
