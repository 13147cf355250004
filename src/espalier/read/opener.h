// Opens an Espalier file, wherever its bytes come from.
#ifndef ESPALIER_READ_OPENER_H_
#define ESPALIER_READ_OPENER_H_

#include <optional>
#include <vector>

#include "espalier/base/arena.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/header.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// The machine that opens an Espalier file: one extent, and a second one if the index is large. If
/// chunks lie in other files, it wants those, and the head of each, which tells whether it is the
/// file that is meant. One that is missing, or another (kBaseMismatch), has a problem in the
/// catalog, and all else can be read.
class Opener final : public StepOpener {
 public:
  explicit Opener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;
  [[nodiscard]] Result<void> read_front();
  [[nodiscard]] Result<void> read_index();
  void want_heads();
  void check_heads();

  enum class Step : std::uint8_t { kFront, kIndex, kHeads, kCheck };
  Step next_ = Step::kFront;
  Header header_;
  std::optional<Arena> index_;
  Tables tables_;
  std::vector<std::vector<std::byte>> heads_;  // by file; empty for one that cannot be read
};

}  // namespace espalier

#endif  // ESPALIER_READ_OPENER_H_
