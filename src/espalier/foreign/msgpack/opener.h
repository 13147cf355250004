// Opens a msgpack file of flax as a checkpoint.
//
// The state is the tree of the file. docs/formats.md says what becomes of its objects.
#ifndef ESPALIER_FOREIGN_MSGPACK_OPENER_H_
#define ESPALIER_FOREIGN_MSGPACK_OPENER_H_

#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/msgpack/arrays_beside.h"
#include "espalier/foreign/msgpack/parser.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether a file that begins with `front` is a map of msgpack whose first key is a printable text.
/// The format has no magic.
bool looks_like_msgpack(ByteSpan front, std::uint64_t file_size);

/// The machine that opens a msgpack file, and the arrays beside it that texts in it stand for. It
/// leaves out arrays that are longer than what it reads at once. Errors are those of MsgpackParser
/// and msgpack_tables(), and kLimitExceeded.
class MsgpackOpener final : public StepOpener {
 public:
  explicit MsgpackOpener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  [[nodiscard]] Result<void> parse();

  MsgpackParser parser_;
  MsgpackArraysBeside beside_;
  std::vector<std::byte> window_;
  bool is_begun_ = false;
  bool is_parsed_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_OPENER_H_
