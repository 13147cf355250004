// Integers of any size, for the Python ints that do not fit 64 bits.
#ifndef ESPALIER_BIGINT_H_
#define ESPALIER_BIGINT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// A signed integer of any size, encoded as in the file: little-endian two's complement in as few
/// bytes as the value needs, and one byte 0x00 for zero. That is Python's `int.to_bytes(n,
/// "little", signed=True)` for the smallest possible n. A value has one encoding, so equal numbers
/// are equal bytes.
///
/// It converts and compares; it does no arithmetic. A plain value: const access is thread-safe. A
/// moved-from number may only be destroyed or assigned to.
class BigInt {
 public:
  /// Zero.
  BigInt();

  static BigInt from_int64(std::int64_t value);
  static BigInt from_uint64(std::uint64_t value);

  /// Copies an encoding. Fails with `kInvalidArgument` if it is empty or has a needless last byte.
  /// Sets no bound on the size: check `Limits::bigint_bytes` first, for `to_decimal` is quadratic.
  [[nodiscard]] static Result<BigInt> from_bytes(ByteSpan bytes);

  /// Parses the output of `to_decimal`: an optional '-' and digits without leading zeros, and no
  /// "-0"; `kInvalidArgument` for other text. Conversion is quadratic, so a number whose encoding
  /// is longer than `max_bytes` is refused first (`kLimitExceeded`).
  [[nodiscard]] static Result<BigInt> from_decimal(std::string_view text,
                                                   std::size_t max_bytes = Limits{}.bigint_bytes);

  /// Quadratic in the size of the number.
  std::string to_decimal() const;

  /// The encoding; valid while this number lives and is not written to.
  ByteSpan bytes() const { return bytes_; }

  bool fits_int64() const { return bytes_.size() <= sizeof(std::int64_t); }
  /// The value, or nullopt if it does not fit.
  std::optional<std::int64_t> to_int64() const;

  bool is_negative() const;

  friend bool operator==(const BigInt& a, const BigInt& b) { return a.bytes_ == b.bytes_; }

 private:
  /// Drops needless last bytes from a non-empty encoding.
  explicit BigInt(std::vector<std::byte> encoding);

  std::vector<std::byte> bytes_;
};

}  // namespace espalier

#endif  // ESPALIER_BIGINT_H_
