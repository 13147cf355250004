#include "espalier/dtype.h"

#include <array>
#include <cstddef>

namespace espalier {
namespace {

// Indexed by the dtype's number; number 0 is not a dtype.
constexpr std::array<std::string_view, kLastDType + 1> kNames = {
    "",          "bool",    "i8",          "u8",          "i16",        "u16",       "i32", "u32",
    "i64",       "u64",     "f16",         "bf16",        "f32",        "f64",       "c64", "c128",
    "f8_e4m3fn", "f8_e5m2", "f8_e4m3fnuz", "f8_e5m2fnuz", "f8_e8m0fnu", "f4_e2m1fn", "i4",  "u4",
    "i2",        "u2",      "f6_e2m3fn",   "f6_e3m2fn",   "opaque"};

}  // namespace

std::string_view dtype_name(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return kNames[number < kNames.size() ? number : 0];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::uint8_t number = 1; number <= kLastDType; ++number) {
    if (kNames[number] == name) return static_cast<DType>(number);
  }
  return std::nullopt;
}

}  // namespace espalier
