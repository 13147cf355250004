// Where the stored bytes of a checkpoint come from.
#ifndef ESPALIER_BASE_BYTE_SOURCE_H_
#define ESPALIER_BASE_BYTE_SOURCE_H_

#include <cstdint>
#include <optional>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"

namespace espalier {

/// The files of a checkpoint, by number. Const use is thread-safe.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Returns the bytes of `extent`, all of them: a view of the mapping, or of `scratch` (at least
  /// extent.length bytes), where they are read. kTruncated for an extent beyond the end.
  /// kFileChanged if the file has become shorter.
  [[nodiscard]] virtual Result<ByteSpan> read(const Extent& extent,
                                              MutableByteSpan scratch) const = 0;

  /// Copies the bytes of `extent` to `out`, which has the same length. Unlike mapped bytes, the
  /// copy cannot change, and it causes no page faults. Errors are those of read().
  [[nodiscard]] virtual Result<void> copy(const Extent& extent, MutableByteSpan out) const = 0;

  /// Whether the files may hold other bytes than when they were opened, as far as can be told
  /// without reading them.
  virtual bool may_have_changed() const { return false; }

  /// A descriptor of file number `file`, open for reading as long as the source lives, if system
  /// calls can copy from it: offsets in it are those of extents.
  virtual std::optional<int> descriptor(std::uint32_t file) const {
    (void)file;
    return std::nullopt;
  }
};

/// That a source returned as many bytes as it was asked for; kIoError if not. Callers of read()
/// check it before they use the bytes, because a source may be a stranger's code.
[[nodiscard]] Result<void> check_answer(const Extent& extent, ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_BASE_BYTE_SOURCE_H_
