// Bytes in memory, ranges of bytes in files and where they come from, and hashes of bytes.
#ifndef ESPALIER_BYTES_H_
#define ESPALIER_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "espalier/error.h"

namespace espalier {

// The file is little-endian and its records are read in place. A big-endian port would have to swap
// the tables after copying them into the arena.
static_assert(std::endian::native == std::endian::little,
              "Espalier reads its little-endian tables in place and needs a little-endian machine");

/// Borrowed bytes, which must not change while they are read.
using ByteSpan = std::span<const std::byte>;
/// Borrowed writable bytes.
using MutableByteSpan = std::span<std::byte>;

/// The bits of `from` as a `To` of the same size: std::bit_cast, which Emscripten 3.1.6 does not
/// have.
template <class To, class From>
To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From> &&
                std::is_trivially_copyable_v<To>);
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline ByteSpan as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `length` bytes at `offset` of file number `file`. File 0 is the opened one, and the others are
/// the further files of the checkpoint.
struct Extent {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

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

/// A 128-bit hash, laid out as in the file: the low 64 bits first.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
};
static_assert(sizeof(Hash128) == 16);

/// The 16 bytes in file order as 32 lower-case hex digits.
std::string to_hex(const Hash128& hash);

}  // namespace espalier

#endif  // ESPALIER_BYTES_H_
