// Opens a file of any format that the library reads; its first bytes tell which.
#ifndef ESPALIER_FOREIGN_ANY_OPENER_H_
#define ESPALIER_FOREIGN_ANY_OPENER_H_

#include <optional>
#include <span>
#include <variant>

#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/foreign/safetensors_reader.h"
#include "espalier/read/gather.h"
#include "espalier/read/opener.h"

namespace espalier {

/// The machine that opens a checkpoint of whatever format, with the shape and errors of the opener
/// of that format; kNotACheckpoint if the first bytes are of none. Not thread-safe.
class AnyOpener {
 public:
  explicit AnyOpener(OpenOptions options);

  /// The bytes still needed; empty when finish() can be called. Valid until the next feed().
  std::span<const Extent> needs() const;
  /// Takes bytes of the file. Fails as soon as they show that the file is bad, and stays failed.
  Result<void> feed(const Extent& extent, ByteSpan bytes);
  /// Validates, and gives the checkpoint. kIncomplete if bytes are still needed. Call once.
  Result<Checkpoint> finish();

 private:
  OpenOptions options_;
  Gather front_;
  std::variant<std::monostate, Opener, SafetensorsOpener> opener_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ANY_OPENER_H_
