#include "espalier/bigint.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "espalier/base/ascii.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// Magnitudes are in base 2^32, little-endian, and are converted nine decimal digits at a time.
using Limbs = std::vector<std::uint32_t>;
constexpr std::size_t kDigitsPerChunk = 9;
constexpr std::uint32_t kChunk = 1'000'000'000;

void multiply_add(Limbs& limbs, std::uint32_t factor, std::uint32_t addend) {
  std::uint64_t carry = addend;
  for (std::uint32_t& limb : limbs) {
    carry += std::uint64_t{limb} * factor;
    limb = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) limbs.push_back(static_cast<std::uint32_t>(carry));
}

/// Divides in place and returns the remainder.
std::uint32_t divide(Limbs& limbs, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (auto limb = limbs.rbegin(); limb != limbs.rend(); ++limb) {
    rest = rest << 32 | *limb;
    *limb = static_cast<std::uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  return static_cast<std::uint32_t>(rest);
}

/// Two's complement negation. The caller must leave room for the sign.
void negate(std::vector<std::byte>& bytes) {
  unsigned carry = 1;
  for (std::byte& byte : bytes) {
    carry += std::to_integer<unsigned>(~byte);
    byte = static_cast<std::byte>(carry & 0xFF);
    carry >>= 8;
  }
}

bool sign_bit(std::byte byte) { return (byte & std::byte{0x80}) != std::byte{}; }

/// Whether the last byte only repeats the sign of the byte before it.
bool has_needless_byte(ByteSpan bytes) {
  if (bytes.size() < 2) return false;
  const std::byte fill = sign_bit(bytes[bytes.size() - 2]) ? std::byte{0xFF} : std::byte{};
  return bytes.back() == fill;
}

tl::unexpected<Error> too_large(std::size_t max_bytes) {
  return fail(ErrorCode::kLimitExceeded,
              "the integer needs more than " + counted(max_bytes, "byte") +
                  "; raise the limit bigint_bytes if it is meant to be that large");
}

}  // namespace

BigInt::BigInt() : bytes_(1) {}

BigInt::BigInt(std::vector<std::byte> encoding) : bytes_(std::move(encoding)) {
  while (has_needless_byte(bytes_)) bytes_.pop_back();
}

BigInt BigInt::from_int64(std::int64_t value) {
  std::vector<std::byte> bytes(sizeof(value));
  store_le(bytes.data(), value);
  return BigInt(std::move(bytes));
}

BigInt BigInt::from_uint64(std::uint64_t value) {
  // With a byte more, which leaves room for the sign.
  std::vector<std::byte> bytes(sizeof(value) + 1);
  store_le(bytes.data(), value);
  return BigInt(std::move(bytes));
}

Result<BigInt> BigInt::from_bytes(ByteSpan bytes) {
  if (bytes.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "an integer takes at least one byte; write zero as one byte 0x00");
  }
  if (has_needless_byte(bytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "the last byte of the integer only repeats its sign; use the shortest encoding");
  }
  return BigInt(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

Result<BigInt> BigInt::from_decimal(std::string_view text, std::size_t max_bytes) {
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit) ||
      (digits.front() == '0' && text.size() > 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "not a decimal integer; write an optional '-' and digits without leading zeros");
  }
  // A byte is 2.41 digits. This bounds the work; the exact check follows when the size is known.
  if (std::uint64_t{digits.size() - 1} * 2 / 5 > max_bytes) return too_large(max_bytes);

  Limbs limbs;
  while (!digits.empty()) {
    const std::size_t count = (digits.size() - 1) % kDigitsPerChunk + 1;
    std::uint32_t chunk = 0;
    std::uint32_t scale = 1;
    for (const char digit : digits.substr(0, count)) {
      chunk = chunk * 10 + static_cast<std::uint32_t>(digit - '0');
      scale *= 10;
    }
    multiply_add(limbs, scale, chunk);
    digits.remove_prefix(count);
  }
  limbs.push_back(0);  // Room for the sign.

  std::vector<std::byte> bytes(limbs.size() * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < limbs.size(); ++i) {
    store_le(bytes.data() + i * sizeof(std::uint32_t), limbs[i]);
  }
  if (negative) negate(bytes);
  BigInt value(std::move(bytes));
  if (value.bytes_.size() > max_bytes) return too_large(max_bytes);
  return value;
}

std::string BigInt::to_decimal() const {
  std::vector<std::byte> bytes = bytes_;
  // -2^(8n-1) is its own negation in n bytes; read as unsigned, that is its magnitude.
  if (is_negative()) negate(bytes);
  bytes.resize((bytes.size() + 3) / 4 * 4);
  Limbs limbs(bytes.size() / 4);
  for (std::size_t i = 0; i < limbs.size(); ++i) {
    limbs[i] = load_le<std::uint32_t>(bytes.data() + i * 4);
  }

  std::string reversed;
  do {
    std::uint32_t chunk = divide(limbs, kChunk);
    // The leading group prints without leading zeros, the others with nine digits.
    for (std::size_t i = 0; limbs.empty() ? i == 0 || chunk != 0 : i < kDigitsPerChunk; ++i) {
      reversed += static_cast<char>('0' + chunk % 10);
      chunk /= 10;
    }
  } while (!limbs.empty());
  if (is_negative()) reversed += '-';
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

std::optional<std::int64_t> BigInt::to_int64() const {
  if (!fits_int64()) return std::nullopt;
  std::array<std::byte, sizeof(std::int64_t)> word;
  word.fill(is_negative() ? std::byte{0xFF} : std::byte{});
  std::copy(bytes_.begin(), bytes_.end(), word.begin());
  return load_le<std::int64_t>(word.data());
}

bool BigInt::is_negative() const { return !bytes_.empty() && sign_bit(bytes_.back()); }

}  // namespace espalier
