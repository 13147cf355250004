// The deflate and CRC-32 of zip archives, by zlib.
#ifndef ESPALIER_FOREIGN_ZIP_INFLATE_H_
#define ESPALIER_FOREIGN_ZIP_INFLATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// The CRC-32 of what had the CRC-32 `before` (0 for nothing), and `bytes` after it.
std::uint32_t crc32_after(std::uint32_t before, ByteSpan bytes);

/// The CRC-32 of what has the CRC-32 `before`, and `length` bytes with the CRC-32 `after` behind
/// it.
std::uint32_t crc32_joined(std::uint32_t before, std::uint32_t after, std::uint64_t length);

/// What stands around a deflate stream. The checksums of the other two are compared.
enum class DeflateForm : std::uint8_t { kRaw, kZlib, kGzip };

/// Inflates one deflate stream. Not thread-safe.
class Inflater {
 public:
  struct Progress {
    std::size_t taken = 0;
    std::size_t made = 0;
  };

  explicit Inflater(DeflateForm form = DeflateForm::kRaw);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  /// Inflates from `packed` into `out` until either is used up or the stream ends. kForeignInvalid
  /// for what is no deflate stream, kOutOfMemory.
  [[nodiscard]] Result<Progress> run(ByteSpan packed, MutableByteSpan out);
  /// Whether the stream has ended.
  bool is_at_end() const { return is_at_end_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  bool is_at_end_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_INFLATE_H_
