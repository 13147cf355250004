// Opens a file of any format that the library reads, detected from its first bytes.
#ifndef ESPALIER_FOREIGN_ANY_OPENER_H_
#define ESPALIER_FOREIGN_ANY_OPENER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/formats.h"
#include "espalier/read/gather.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// The row of a file that begins with `front`, its first kFirstReadBytes or all of it. Null for a
/// file of our own format, or of none. `name` may be empty.
const FileKind* kind_of(ByteSpan front, std::uint64_t file_size, std::string_view name);

/// The machine that opens a checkpoint of any format, with the errors of that format's opener.
/// kNotACheckpoint if the first bytes match no format. The formats are those of formats.h.
class AnyOpener final : public OpeningMachine {
 public:
  explicit AnyOpener(const OpenOptions& options);

  const WantedFiles* wanted_files() const override;
  [[nodiscard]] Result<void> answer(std::uint32_t number,
                                    const Result<std::uint64_t>& size) override;
  std::span<const Extent> needs() const override;
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes) override;
  [[nodiscard]] Result<Checkpoint> finish() override;

 private:
  [[nodiscard]] Result<void> choose(ByteSpan front);

  std::string name_;  // of options_
  OpenOptions options_;
  Gather front_;
  std::unique_ptr<OpeningMachine> opener_;  // set once the front has determined the format
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ANY_OPENER_H_
