#include "espalier/tree/encode_elements.h"

#include <cstddef>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

// sign | exponent | mantissa of the double.
constexpr int kDoubleMantissa = 52;
constexpr std::uint64_t kDoubleMaxExponent = 0x7FF;
constexpr int kDoubleBias = 1023;

// The code of `value` in an IEEE type with these bits. Adds 1 to `overflows` if it is finite and
// the code is not. All arithmetic is on integers, so that no intermediate type rounds first.
template <int kExponentBits, int kMantissaBits>
std::uint32_t encode(double value, std::uint64_t& overflows) {
  constexpr std::uint64_t kInfinity = ((std::uint64_t{1} << kExponentBits) - 1) << kMantissaBits;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  const auto bits = bits_as<std::uint64_t>(value);
  const std::uint64_t sign = bits >> 63 << (kExponentBits + kMantissaBits);
  const std::uint64_t exponent = bits >> kDoubleMantissa & kDoubleMaxExponent;
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << kDoubleMantissa) - 1);
  if (exponent == kDoubleMaxExponent) {
    std::uint64_t code = sign | kInfinity;
    // The quiet bit keeps a NaN whose payload is lost from becoming an infinity.
    if (mantissa != 0) {
      code |=
          std::uint64_t{1} << (kMantissaBits - 1) | mantissa >> (kDoubleMantissa - kMantissaBits);
    }
    return static_cast<std::uint32_t>(code);
  }
  const std::uint64_t implied = exponent != 0 ? std::uint64_t{1} << kDoubleMantissa : 0;
  const int target = static_cast<int>(exponent) - kDoubleBias + kBias;
  // Subnormal codes have the scale of exponent 1 and no implied bit.
  const int shift = kDoubleMantissa - kMantissaBits + (target < 1 ? 1 - target : 0);
  std::uint64_t code = 0;
  if (shift <= kDoubleMantissa + 2) {  // Otherwise it is less than half of the least subnormal.
    const std::uint64_t significand = implied | mantissa;
    const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    code = significand >> shift;
    if (rest > half || (rest == half && (code & 1) != 0)) ++code;
    // The implied bit, and a carry out of the mantissa, count in the exponent.
    if (target > 1) code += static_cast<std::uint64_t>(target - 1) << kMantissaBits;
  }
  if (code >= kInfinity) {
    ++overflows;
    code = kInfinity;
  }
  return static_cast<std::uint32_t>(sign | code);
}

template <class Code, int kExponentBits, int kMantissaBits>
std::uint64_t encode_all(std::span<const double> values, MutableByteSpan out) {
  if (out.size() / sizeof(Code) != values.size() || out.size() % sizeof(Code) != 0) return 0;
  std::uint64_t overflows = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = encode<kExponentBits, kMantissaBits>(values[i], overflows);
    store_le(out.data() + i * sizeof(Code), static_cast<Code>(code));
  }
  return overflows;
}

}  // namespace

std::uint64_t encode_elements(DType dtype, std::span<const double> values, MutableByteSpan out) {
  switch (dtype) {
    case DType::kF16:
      return encode_all<std::uint16_t, 5, 10>(values, out);
    case DType::kBF16:
      return encode_all<std::uint16_t, 8, 7>(values, out);
    case DType::kF32:
      return encode_all<std::uint32_t, 8, 23>(values, out);
    default:
      return 0;
  }
}

}  // namespace espalier
