// Opens a safetensors file as a checkpoint.
//
//   SafetensorsOpener opener({.file_size = size});
//   while (!opener.needs().empty()) {
//     const Extent extent = opener.needs().front();
//     if (auto ok = opener.feed(extent, read(extent)); !ok) return ok.error();
//   }
//   Result<Checkpoint> checkpoint = opener.finish();
//
// The state is a flat dict: the tensors' names are its keys, whole, in the order of the tensors'
// bytes.
// `__metadata__` is the checkpoint's metadata. docs/safetensors.md says what is refused.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_READER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_READER_H_

#include <cstdint>
#include <optional>
#include <span>

#include "espalier/base/arena.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/base/limits.h"
#include "espalier/read/checkpoint.h"
#include "espalier/read/gather.h"
#include "espalier/read/opener.h"

namespace espalier {

/// The machine that opens a safetensors file, with the shape of Opener: one extent, and a second
/// one if the header is large. The header is copied once, into an arena that is freed when finish()
/// returns. Not thread-safe.
class SafetensorsOpener {
 public:
  explicit SafetensorsOpener(OpenOptions options);

  /// The bytes still needed; empty when finish() can be called. Valid until the next feed().
  std::span<const Extent> needs() const;
  /// Takes bytes of the file. Fails as soon as they show that the file is bad, and stays failed.
  Result<void> feed(const Extent& extent, ByteSpan bytes);
  /// Parses and validates the header and gives the checkpoint. kSafetensorsInvalid for what breaks
  /// the specification, kTruncated or kTrailingBytes if the file's length is wrong, kLimitExceeded;
  /// kIncomplete if bytes are still needed. Call once.
  Result<Checkpoint> finish();

 private:
  Result<void> take_front(ByteSpan bytes);

  OpenOptions options_;
  std::uint64_t header_length_ = 0;
  // The header and one byte more, which ends the text for the JSON reader.
  std::optional<Arena> header_;
  std::uint64_t header_filled_ = 0;
  Gather gather_;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_READER_H_
