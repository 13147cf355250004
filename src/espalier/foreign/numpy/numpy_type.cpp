#include "espalier/foreign/numpy/numpy_type.h"

#include <charconv>

namespace espalier {
namespace {

DType number_dtype(char kind, std::uint64_t bytes) {
  struct Number {
    char kind;
    std::uint8_t bytes;
    DType dtype;
  };
  constexpr Number kNumbers[] = {
      {'b', 1, DType::kBool}, {'i', 1, DType::kI8},   {'u', 1, DType::kU8},  {'i', 2, DType::kI16},
      {'u', 2, DType::kU16},  {'i', 4, DType::kI32},  {'u', 4, DType::kU32}, {'i', 8, DType::kI64},
      {'u', 8, DType::kU64},  {'f', 2, DType::kF16},  {'f', 4, DType::kF32}, {'f', 8, DType::kF64},
      {'c', 8, DType::kC64},  {'c', 16, DType::kC128}};
  for (const Number& number : kNumbers) {
    if (number.kind == kind && number.bytes == bytes) return number.dtype;
  }
  return DType::kOpaque;
}

}  // namespace

std::optional<NumpyType> parse_numpy_type(std::string_view text) {
  constexpr std::string_view kOrders = "<>|=";
  char order = '<';
  if (!text.empty() && kOrders.find(text.front()) != std::string_view::npos) {
    order = text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  const char kind = text.front();
  text.remove_prefix(1);
  NumpyType scalar;
  if (kind == '?' && text.empty()) return NumpyType{DType::kBool, 1};
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, count);
  const bool has_count = error == std::errc{};
  const std::string_view unit(after, static_cast<std::size_t>(end - after));
  if (kind == 'O') {
    if (!unit.empty()) return std::nullopt;
    scalar.has_objects = true;
    scalar.bytes = sizeof(std::uint64_t);
    return scalar;
  }
  constexpr std::uint64_t kMostBytes = 0xFFFFFFFF;  // BlockType::bytes
  constexpr std::uint64_t kCharacterBytes = 4;
  if (!has_count || count > kMostBytes) return std::nullopt;
  scalar.bytes = kind == 'U' ? count * kCharacterBytes : count;
  if (scalar.bytes > kMostBytes) return std::nullopt;
  switch (kind) {
    case 'M':
    case 'm':
      if (!unit.empty() && (unit.front() != '[' || unit.back() != ']')) return std::nullopt;
      return scalar.bytes == 8 ? std::optional(scalar) : std::nullopt;
    case 'S':
    case 'a':
    case 'U':
    case 'V':
      return unit.empty() ? std::optional(scalar) : std::nullopt;
    case 'b':
    case 'i':
    case 'u':
    case 'f':
    case 'c':
      if (!unit.empty()) return std::nullopt;
      scalar.dtype = number_dtype(kind, scalar.bytes);
      // Of the others there is only long double, with 10 to 16 bytes.
      if (scalar.dtype == DType::kOpaque) {
        const std::uint64_t part = kind == 'f' ? scalar.bytes : kind == 'c' ? scalar.bytes / 2 : 0;
        if (part < 10 || part > 16) return std::nullopt;
      }
      scalar.is_swapped = order == '>' && scalar.bytes > 1 && scalar.dtype != DType::kOpaque;
      return scalar;
    default:
      return std::nullopt;
  }
}

}  // namespace espalier
