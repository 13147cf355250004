#include "espalier/foreign/pickle/literal.h"

#include <cstring>

#include "espalier/base/ascii.h"
#include "espalier/base/checked.h"
#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// Bools of protocols 0 and 1 are ints with a zero before them.
constexpr std::string_view kFalse = "00";
constexpr std::string_view kTrue = "01";

double load_big_endian_real(const std::byte* at) {
  std::uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits = bits << 8 | std::to_integer<std::uint64_t>(at[i]);
  return bits_as<double>(bits);
}

PickleLiteral integer(std::int64_t value) { return {.type = PickleType::kInt, .integer = value}; }

PickleLiteral boolean(bool value) { return {.type = PickleType::kBool, .integer = value ? 1 : 0}; }

// Little-endian two's complement of any length.
PickleLiteral read_long(ByteSpan bytes) {
  if (bytes.size() > sizeof(std::int64_t)) return {.type = PickleType::kBigInt, .bytes = bytes};
  const bool is_negative = !bytes.empty() && (bytes.back() & std::byte{0x80}) != std::byte{0};
  std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return integer(bits_as<std::int64_t>(value));
}

// Decimal digits, as protocol 0 writes ints: with an L at the end if they were long.
PickleLiteral read_decimal(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  std::uint64_t value = 0;
  bool fits = true;
  for (const char c : digits) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    fits = fits && !__builtin_mul_overflow(value, std::uint64_t{10}, &value) &&
           !__builtin_add_overflow(value, digit, &value);
  }
  const std::uint64_t most = (std::uint64_t{1} << 63) - (is_negative ? 0 : 1);
  if (!fits || value > most) {
    return {.type = PickleType::kBigInt, .bytes = as_bytes(text), .is_decimal = true};
  }
  return integer(bits_as<std::int64_t>(is_negative ? 0 - value : value));
}

bool is_decimal(std::string_view text) {
  if (text.ends_with('L')) text.remove_suffix(1);
  if (text.starts_with('-')) text.remove_prefix(1);
  // Python's reader in C takes 010 for octal, and that in Python refuses it.
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  for (const char c : text) {
    if (!is_digit(c)) return false;
  }
  return true;
}

PickleLiteral text(PickleType type, ByteSpan bytes) { return {.type = type, .bytes = bytes}; }

// 'text' or "text", with the escapes of a Python 2 string.
PickleLiteral read_quoted(ByteSpan line) {
  const ByteSpan inner = line.size() < 2 ? ByteSpan() : line.subspan(1, line.size() - 2);
  PickleLiteral literal = text(PickleType::kOldText, inner);
  literal.is_escaped = as_text(inner).find('\\') != std::string_view::npos;
  return literal;
}

}  // namespace

std::optional<OpSpan> find_line(ByteSpan pickle, std::size_t begin) {
  const auto* first = pickle.data() + begin;
  const void* found =
      begin == pickle.size() ? nullptr : std::memchr(first, '\n', pickle.size() - begin);
  if (found == nullptr) return std::nullopt;
  const std::size_t end =
      begin + static_cast<std::size_t>(static_cast<const std::byte*>(found) - first);
  return OpSpan{begin, end, end + 1};
}

bool is_valid_line(PickleOp op, std::string_view line) {
  // Longer numbers are no numbers that Python writes, and would be parsed again at every use.
  constexpr std::size_t kLongestNumber = 64;
  switch (op) {
    case PickleOp::kInt:
      if (line == kFalse || line == kTrue) return true;
      return line.size() <= kLongestNumber && is_decimal(line) && !line.ends_with('L');
    case PickleOp::kLong:
      return is_decimal(line);
    case PickleOp::kString:
      return line.size() >= 2 && line.front() == line.back() &&
             (line.front() == '\'' || line.front() == '"');
    default:
      return true;
  }
}

PickleLiteral read_literal(ByteSpan pickle, std::size_t at) {
  const auto op = static_cast<PickleOp>(pickle[at]);
  const auto span = find_argument(pickle, at);
  const ByteSpan argument =
      span ? pickle.subspan(span->begin, span->end - span->begin) : ByteSpan();
  switch (op) {
    case PickleOp::kNewTrue:
    case PickleOp::kNewFalse:
      return boolean(op == PickleOp::kNewTrue);
    case PickleOp::kInt:
      if (as_text(argument) == kFalse || as_text(argument) == kTrue) {
        return boolean(as_text(argument) == kTrue);
      }
      return read_decimal(as_text(argument));
    case PickleOp::kLong:
      return read_decimal(as_text(argument));
    case PickleOp::kBinInt:
      return integer(load_le<std::int32_t>(argument.data()));
    case PickleOp::kBinInt1:
      return integer(load_le<std::uint8_t>(argument.data()));
    case PickleOp::kBinInt2:
      return integer(load_le<std::uint16_t>(argument.data()));
    case PickleOp::kLong1:
    case PickleOp::kLong4:
      return read_long(argument);
    case PickleOp::kBinFloat:
      return {.type = PickleType::kFloat, .real = load_big_endian_real(argument.data())};
    case PickleOp::kString:
      return read_quoted(argument);
    case PickleOp::kBinString:
    case PickleOp::kShortBinString:
      return text(PickleType::kOldText, argument);
    case PickleOp::kUnicode: {
      PickleLiteral literal = text(PickleType::kText, argument);
      literal.is_escaped = true;  // Bytes from 0x80 on are Latin-1.
      return literal;
    }
    case PickleOp::kBinUnicode:
    case PickleOp::kShortBinUnicode:
    case PickleOp::kBinUnicode8:
      return text(PickleType::kText, argument);
    case PickleOp::kBinBytes:
    case PickleOp::kShortBinBytes:
    case PickleOp::kBinBytes8:
      return text(PickleType::kBytes, argument);
    case PickleOp::kByteArray8:
      return text(PickleType::kByteArray, argument);
    default:
      return {};
  }
}

}  // namespace espalier
