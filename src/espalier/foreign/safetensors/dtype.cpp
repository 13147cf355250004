#include "espalier/foreign/safetensors/dtype.h"

#include <array>
#include <cstddef>

#include "espalier/base/checked.h"
#include "espalier/dtype.h"

namespace espalier {
namespace {

struct NamedDType {
  std::string_view name;
  DType dtype;
};

// In the order of the reference library's enumeration, which it sorts by: rank 1 is the first.
constexpr std::array<NamedDType, 22> kSafetensorsTypes = {{
    {"BOOL", DType::kBool},
    {"F4", DType::kF4E2M1FN},
    {"F6_E2M3", DType::kF6E2M3FN},
    {"F6_E3M2", DType::kF6E3M2FN},
    {"U8", DType::kU8},
    {"I8", DType::kI8},
    {"F8_E5M2", DType::kF8E5M2},
    {"F8_E4M3", DType::kF8E4M3FN},
    {"F8_E8M0", DType::kF8E8M0FNU},
    {"F8_E4M3FNUZ", DType::kF8E4M3FNUZ},
    {"F8_E5M2FNUZ", DType::kF8E5M2FNUZ},
    {"I16", DType::kI16},
    {"U16", DType::kU16},
    {"F16", DType::kF16},
    {"BF16", DType::kBF16},
    {"I32", DType::kI32},
    {"U32", DType::kU32},
    {"F32", DType::kF32},
    {"C64", DType::kC64},
    {"F64", DType::kF64},
    {"I64", DType::kI64},
    {"U64", DType::kU64},
}};

}  // namespace

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const NamedDType& type : kSafetensorsTypes) {
    if (type.name == name) return type.dtype;
  }
  return std::nullopt;
}

std::uint8_t safetensors_dtype_rank(DType dtype) {
  for (std::size_t i = 0; i < kSafetensorsTypes.size(); ++i) {
    if (kSafetensorsTypes[i].dtype == dtype) return static_cast<std::uint8_t>(i + 1);
  }
  return 0;
}

std::string_view safetensors_dtype_name(DType dtype) {
  const std::uint8_t rank = safetensors_dtype_rank(dtype);
  return rank == 0 ? std::string_view() : kSafetensorsTypes[rank - 1u].name;
}

Result<std::uint64_t> safetensors_tensor_bytes(DType dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t axis : shape) {
    const auto product = checked_mul(elements, axis);
    if (!product) {
      return fail(ErrorCode::kSafetensorsInvalid, "the shape has more than 2^64 elements");
    }
    elements = *product;
  }
  auto bytes = tensor_bytes(dtype, shape);
  if (!bytes) return fail(ErrorCode::kSafetensorsInvalid, std::move(bytes.error().message));
  return bytes;
}

}  // namespace espalier
