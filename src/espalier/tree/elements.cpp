#include "espalier/tree/elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// The meaning of a small floating-point type's largest exponents.
enum class Specials : std::uint8_t {
  kIeee,          // all exponent bits: infinities and NaNs
  kOnlyNan,       // all bits but the sign: NaN; no infinities ("fn")
  kNegativeZero,  // the code of -0 is the only NaN; no infinities ("fnuz")
  kNone,          // neither
};

// sign | exponent | mantissa, from the highest bit down.
struct Minifloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};

constexpr Minifloat kF16{5, 10, 15, Specials::kIeee};
constexpr Minifloat kE4M3FN{4, 3, 7, Specials::kOnlyNan};
constexpr Minifloat kE5M2{5, 2, 15, Specials::kIeee};
constexpr Minifloat kE4M3FNUZ{4, 3, 8, Specials::kNegativeZero};
constexpr Minifloat kE5M2FNUZ{5, 2, 16, Specials::kNegativeZero};
constexpr Minifloat kE2M1FN{2, 1, 1, Specials::kNone};
constexpr Minifloat kE2M3FN{2, 3, 1, Specials::kNone};
constexpr Minifloat kE3M2FN{3, 2, 3, Specials::kNone};

// 2^exponent; exact, and cheap enough to fill small tables.
constexpr double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr double decode(const Minifloat& type, std::uint32_t code) {
  const std::uint32_t sign = code >> (type.exponent_bits + type.mantissa_bits);
  const std::uint32_t mantissa_mask = (1u << type.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1u << type.exponent_bits) - 1;
  const std::uint32_t mantissa = code & mantissa_mask;
  const std::uint32_t exponent = (code >> type.mantissa_bits) & exponent_mask;
  const double direction = sign != 0 ? -1.0 : 1.0;
  if (type.specials == Specials::kIeee && exponent == exponent_mask) {
    return mantissa != 0 ? kNan : direction * std::numeric_limits<double>::infinity();
  }
  if (type.specials == Specials::kOnlyNan && exponent == exponent_mask &&
      mantissa == mantissa_mask) {
    return kNan;
  }
  if (type.specials == Specials::kNegativeZero && sign != 0 && exponent == 0 && mantissa == 0) {
    return kNan;
  }
  // Exponent 0 means no implied leading one, at the scale of exponent 1.
  const std::uint32_t implied = exponent == 0 ? 0 : mantissa_mask + 1;
  const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) - type.bias;
  return direction * static_cast<double>(implied + mantissa) *
         power_of_two(scale - type.mantissa_bits);
}

template <std::size_t kCodes>
constexpr std::array<double, kCodes> table_of(const Minifloat& type) {
  std::array<double, kCodes> values{};
  for (std::size_t code = 0; code < kCodes; ++code) {
    values[code] = decode(type, static_cast<std::uint32_t>(code));
  }
  return values;
}

constexpr std::array<double, 256> table_of_e8m0fnu() {
  std::array<double, 256> values{};
  for (int code = 0; code < 255; ++code)
    values[static_cast<std::size_t>(code)] = power_of_two(code - 127);
  values[255] = kNan;
  return values;
}

constexpr auto kE4M3FNValues = table_of<256>(kE4M3FN);
constexpr auto kE5M2Values = table_of<256>(kE5M2);
constexpr auto kE4M3FNUZValues = table_of<256>(kE4M3FNUZ);
constexpr auto kE5M2FNUZValues = table_of<256>(kE5M2FNUZ);
constexpr auto kE8M0FNUValues = table_of_e8m0fnu();
constexpr auto kE2M1FNValues = table_of<16>(kE2M1FN);
constexpr auto kE2M3FNValues = table_of<64>(kE2M3FN);
constexpr auto kE3M2FNValues = table_of<64>(kE3M2FN);

// Elements of whole bytes, each stored as a `Stored`.
template <class Stored, class T, class Convert>
void decode_bytes(ByteSpan packed, std::uint64_t first, std::span<T> out, Convert convert) {
  const std::byte* from = packed.data() + first * sizeof(Stored);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = convert(load_le<Stored>(from + i * sizeof(Stored)));
  }
}

// Elements of `bits` bits, low bits first; one may begin in a byte and end in the next.
template <class T, class Convert>
void decode_bits(std::uint32_t bits, ByteSpan packed, std::uint64_t first, std::span<T> out,
                 Convert convert) {
  const std::uint32_t mask = (1u << bits) - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t bit = (first + i) * bits;
    const auto byte = static_cast<std::size_t>(bit / 8);
    const auto shift = static_cast<std::uint32_t>(bit % 8);
    std::uint32_t code = std::to_integer<std::uint32_t>(packed[byte]) >> shift;
    if (shift + bits > 8) code |= std::to_integer<std::uint32_t>(packed[byte + 1]) << (8 - shift);
    out[i] = convert(code & mask);
  }
}

template <std::uint32_t kBits>
std::int64_t sign_extend(std::uint32_t code) {
  return static_cast<std::int64_t>(code ^ (1u << (kBits - 1))) - (1 << (kBits - 1));
}

void decode_typed(DType dtype, ByteSpan packed, std::uint64_t first, std::span<std::int64_t> out) {
  const auto widen = [](auto value) { return static_cast<std::int64_t>(value); };
  switch (dtype) {
    case DType::kBool:
      return decode_bytes<std::uint8_t>(packed, first, out,
                                        [](std::uint8_t value) { return value != 0 ? 1 : 0; });
    case DType::kI8:
      return decode_bytes<std::int8_t>(packed, first, out, widen);
    case DType::kU8:
      return decode_bytes<std::uint8_t>(packed, first, out, widen);
    case DType::kI16:
      return decode_bytes<std::int16_t>(packed, first, out, widen);
    case DType::kU16:
      return decode_bytes<std::uint16_t>(packed, first, out, widen);
    case DType::kI32:
      return decode_bytes<std::int32_t>(packed, first, out, widen);
    case DType::kU32:
      return decode_bytes<std::uint32_t>(packed, first, out, widen);
    case DType::kI64:
      return decode_bytes<std::int64_t>(packed, first, out, widen);
    case DType::kI4:
      return decode_bits(4, packed, first, out, sign_extend<4>);
    case DType::kU4:
      return decode_bits(4, packed, first, out, widen);
    case DType::kI2:
      return decode_bits(2, packed, first, out, sign_extend<2>);
    case DType::kU2:
      return decode_bits(2, packed, first, out, widen);
    default:
      return;
  }
}

void decode_typed(DType, ByteSpan packed, std::uint64_t first, std::span<std::uint64_t> out) {
  decode_bytes<std::uint64_t>(packed, first, out, [](std::uint64_t value) { return value; });
}

void decode_typed(DType dtype, ByteSpan packed, std::uint64_t first, std::span<double> out) {
  const auto by_table = [&](const auto& table) {
    decode_bytes<std::uint8_t>(packed, first, out, [&](std::uint8_t code) { return table[code]; });
  };
  const auto by_bits = [&](std::uint32_t bits, const auto& table) {
    decode_bits(bits, packed, first, out, [&](std::uint32_t code) { return table[code]; });
  };
  const auto widen = [](auto value) { return static_cast<double>(value); };
  switch (dtype) {
    case DType::kF16:
      return decode_bytes<std::uint16_t>(packed, first, out,
                                         [](std::uint16_t code) { return decode(kF16, code); });
    case DType::kBF16:
      return decode_bytes<std::uint16_t>(packed, first, out, [](std::uint16_t code) {
        return static_cast<double>(bits_as<float>(std::uint32_t{code} << 16));
      });
    case DType::kF32:
      return decode_bytes<float>(packed, first, out, widen);
    case DType::kF64:
      return decode_bytes<double>(packed, first, out, widen);
    case DType::kF8E4M3FN:
      return by_table(kE4M3FNValues);
    case DType::kF8E5M2:
      return by_table(kE5M2Values);
    case DType::kF8E4M3FNUZ:
      return by_table(kE4M3FNUZValues);
    case DType::kF8E5M2FNUZ:
      return by_table(kE5M2FNUZValues);
    case DType::kF8E8M0FNU:
      return by_table(kE8M0FNUValues);
    case DType::kF4E2M1FN:
      return by_bits(4, kE2M1FNValues);
    case DType::kF6E2M3FN:
      return by_bits(6, kE2M3FNValues);
    case DType::kF6E3M2FN:
      return by_bits(6, kE3M2FNValues);
    default:
      return;
  }
}

void decode_typed(DType dtype, ByteSpan packed, std::uint64_t first,
                  std::span<std::complex<double>> out) {
  const auto widen = [](const auto& parts) { return std::complex<double>(parts[0], parts[1]); };
  if (dtype == DType::kC64) return decode_bytes<std::array<float, 2>>(packed, first, out, widen);
  decode_bytes<std::array<double, 2>>(packed, first, out, widen);
}

template <class T>
constexpr ElementType kTypeOf = std::is_same_v<T, std::int64_t>    ? ElementType::kInt64
                                : std::is_same_v<T, std::uint64_t> ? ElementType::kUint64
                                : std::is_same_v<T, double>        ? ElementType::kFloat64
                                                                   : ElementType::kComplex128;

}  // namespace

ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::kU64:
      return ElementType::kUint64;
    case DType::kC64:
    case DType::kC128:
      return ElementType::kComplex128;
    case DType::kOpaque:
      return ElementType::kNone;
    default:
      return dtype_is_floating(dtype) ? ElementType::kFloat64 : ElementType::kInt64;
  }
}

template <class T>
void decode_elements(DType dtype, ByteSpan packed, std::uint64_t first, std::span<T> out) {
  const std::uint64_t available = elements_in(packed.size(), dtype_bits(dtype));
  if (element_type(dtype) != kTypeOf<T> || first > available || out.size() > available - first) {
    return;
  }
  decode_typed(dtype, packed, first, out);
}

template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<std::int64_t>);
template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<std::uint64_t>);
template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<double>);
template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<std::complex<double>>);

}  // namespace espalier
