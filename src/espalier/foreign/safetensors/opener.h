// Opens a safetensors file as a checkpoint.
//
// The state is a flat dict: its keys are the tensors' full names, in the order of the tensors'
// bytes. `__metadata__` is the checkpoint's metadata. docs/safetensors.md lists the refused files.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_

#include <cstdint>
#include <memory>

#include "espalier/base/arena.h"
#include "espalier/bytes.h"
#include "espalier/read/head_opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// Whether a file that begins with `front` is a safetensors file or no valid file at all: it has a
/// length and a brace after it that no other format begins with. The format has no magic.
bool is_safetensors(ByteSpan front, std::uint64_t file_size);

/// Whether a file that no other format takes may be a damaged safetensors file. A length that fits
/// the file or a brace after it is enough, so that the error says what is wrong with it.
bool looks_like_safetensors(ByteSpan front, std::uint64_t file_size);

/// The machine that opens a safetensors file. Besides the errors of every opener, finish() returns
/// kSafetensorsInvalid if the file breaks the specification, kTruncated or kTrailingBytes if its
/// length is wrong, and kLimitExceeded.
class SafetensorsOpener final : public HeadOpener {
 public:
  explicit SafetensorsOpener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<Body> read_front(ByteSpan front) override;
  [[nodiscard]] Result<Checkpoint> open_body(Arena body) override;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_OPENER_H_
