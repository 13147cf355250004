#include "espalier/tree/dtype.h"

#include <array>
#include <cstddef>

namespace espalier {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::uint32_t bits;
  bool floating;
};

// Indexed by the dtype's number; number 0 is not a dtype.
constexpr std::array<DTypeInfo, kLastDType + 1> kInfo = {{
    {"", 0, false},
    {"bool", 8, false},
    {"i8", 8, false},
    {"u8", 8, false},
    {"i16", 16, false},
    {"u16", 16, false},
    {"i32", 32, false},
    {"u32", 32, false},
    {"i64", 64, false},
    {"u64", 64, false},
    {"f16", 16, true},
    {"bf16", 16, true},
    {"f32", 32, true},
    {"f64", 64, true},
    {"c64", 64, true},
    {"c128", 128, true},
    {"f8_e4m3fn", 8, true},
    {"f8_e5m2", 8, true},
    {"f8_e4m3fnuz", 8, true},
    {"f8_e5m2fnuz", 8, true},
    {"f8_e8m0fnu", 8, true},
    {"f4_e2m1fn", 4, true},
    {"i4", 4, false},
    {"u4", 4, false},
    {"i2", 2, false},
    {"u2", 2, false},
    {"f6_e2m3fn", 6, true},
    {"f6_e3m2fn", 6, true},
    {"opaque", 0, false},
}};

const DTypeInfo& info(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return kInfo[number < kInfo.size() ? number : 0];
}

}  // namespace

std::uint32_t dtype_bits(DType dtype) { return info(dtype).bits; }

std::string_view dtype_name(DType dtype) { return info(dtype).name; }

bool dtype_is_floating(DType dtype) { return info(dtype).floating; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::uint8_t number = 1; number <= kLastDType; ++number) {
    if (kInfo[number].name == name) return static_cast<DType>(number);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_number(std::uint8_t number) {
  if (number == 0 || number > kLastDType) return std::nullopt;
  return static_cast<DType>(number);
}

}  // namespace espalier
