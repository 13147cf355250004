// Element types of tensors.
#ifndef ESPALIER_TREE_DTYPE_H_
#define ESPALIER_TREE_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier {

/// The type of a tensor's elements. The numbers are those of the file format and never change.
/// The names are those of ml_dtypes and the OCP MX specification.
enum class DType : std::uint8_t {
  kBool = 1,  // one byte, 0 or 1
  kI8 = 2,
  kU8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kF16 = 10,   // IEEE 754 binary16
  kBF16 = 11,  // the upper half of a binary32
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,   // two f32: real, imaginary
  kC128 = 15,  // two f64: real, imaginary
  kF8E4M3FN = 16,
  kF8E5M2 = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2FNUZ = 19,
  kF8E8M0FNU = 20,
  kF4E2M1FN = 21,  // narrower than a byte: packed from the low bits on
  kI4 = 22,
  kU4 = 23,
  kI2 = 24,
  kU2 = 25,
  kF6E2M3FN = 26,
  kF6E3M2FN = 27,
  kOpaque = 28,  // blocks of a quantised format; see BlockType
};

/// The largest number of a DType; they start at 1 and have no gaps.
inline constexpr std::uint8_t kLastDType = 28;

/// A layout of quantised elements that the library stores without understanding it: `elements`
/// elements in `bytes` bytes (for example ggml's Q4_0: 32 elements in 18 bytes).
struct BlockType {
  std::string_view name;
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;

  friend bool operator==(const BlockType&, const BlockType&) = default;
};

/// The bits of one element by the number of its DType. A table, because every opened or listed
/// tensor needs it. Not inside dtype_bits(), where each call would build the table again.
inline constexpr std::array<std::uint8_t, kLastDType + 1> kDTypeBits = {
    0,   8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 64,
    128, 8, 8, 8, 8,  8,  4,  4,  4,  2,  2,  6,  6,  0};

/// Bits of one element; 0 for kOpaque, whose block type determines it.
constexpr std::uint32_t dtype_bits(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return number < kDTypeBits.size() ? kDTypeBits[number] : 0;
}

/// The short name, for example "bf16" or "f8_e4m3fn". Never empty for a valid DType.
std::string_view dtype_name(DType dtype);

/// The DType with that short name, if any.
std::optional<DType> dtype_from_name(std::string_view name);

/// The DType with that number, if any: the check for a byte that came from a file.
constexpr std::optional<DType> dtype_from_number(std::uint8_t number) {
  if (number == 0 || number > kLastDType) return std::nullopt;
  return static_cast<DType>(number);
}

/// Whether the elements are floating-point or complex numbers.
constexpr bool dtype_is_floating(DType dtype) {
  return (dtype >= DType::kF16 && dtype <= DType::kF4E2M1FN) || dtype == DType::kF6E2M3FN ||
         dtype == DType::kF6E3M2FN;
}

}  // namespace espalier

#endif  // ESPALIER_TREE_DTYPE_H_
