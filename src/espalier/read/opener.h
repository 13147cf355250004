// Opens an Espalier file, wherever its bytes come from.
#ifndef ESPALIER_READ_OPENER_H_
#define ESPALIER_READ_OPENER_H_

#include <optional>

#include "espalier/format/header.h"
#include "espalier/read/head_opener.h"

namespace espalier {

/// The machine that opens an Espalier file: one extent, and a second one if the index is large.
class Opener final : public HeadOpener {
 public:
  explicit Opener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<Body> read_front(ByteSpan front) override;
  [[nodiscard]] Result<Checkpoint> open_body(Arena body) override;

  std::optional<Header> header_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_OPENER_H_
