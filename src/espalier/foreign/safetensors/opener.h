// Opens a safetensors file as a checkpoint.
//
// The state is a flat dict: the tensors' names are its keys, whole, in the order of the tensors'
// bytes. `__metadata__` is the checkpoint's metadata. docs/safetensors.md says what is refused.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_

#include <cstdint>
#include <memory>

#include "espalier/base/bytes.h"
#include "espalier/read/head_opener.h"

namespace espalier {

/// Whether a file that begins with `front` may be a safetensors file. The format has no magic: a
/// header length that fits the file, and usually a brace after it. One of the two is enough, so
/// that a damaged file is reported as what it is.
bool looks_like_safetensors(ByteSpan front, std::uint64_t file_size);

/// The machine that opens a safetensors file. Besides the errors of every opener, finish() gives
/// kSafetensorsInvalid for what breaks the specification, kTruncated or kTrailingBytes if the
/// file's length is wrong, and kLimitExceeded.
class SafetensorsOpener final : public HeadOpener {
 public:
  explicit SafetensorsOpener(const OpenOptions& options);

 private:
  Result<Body> read_front(ByteSpan front) override;
  Result<Checkpoint> open_body(Arena body) override;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_
