#include "espalier/foreign/tensorflow/element_type.h"

#include <iterator>

namespace espalier {
namespace {

using Storage = TensorFlowType::Storage;

constexpr TensorFlowType plain(std::string_view name, DType dtype, std::string_view label = {}) {
  return {Storage::kPlain, name, dtype, dtype_bits(dtype) / 8, label};
}

constexpr TensorFlowType narrow(std::string_view name, DType dtype, std::string_view label,
                                bool is_signed) {
  return {Storage::kNarrow, name, dtype, 1, label, is_signed};
}

// By the numbers of types.proto.
constexpr TensorFlowType kTypes[] = {
    {Storage::kRefused, "invalid"},
    plain("float32", DType::kF32),
    plain("float64", DType::kF64),
    plain("int32", DType::kI32),
    plain("uint8", DType::kU8),
    plain("int16", DType::kI16),
    plain("int8", DType::kI8),
    {Storage::kText, "string", DType::kOpaque, 0, "tensorflow.string"},
    plain("complex64", DType::kC64),
    plain("int64", DType::kI64),
    plain("bool", DType::kBool),
    plain("qint8", DType::kI8, "tensorflow.qint8"),
    plain("quint8", DType::kU8, "tensorflow.quint8"),
    plain("qint32", DType::kI32, "tensorflow.qint32"),
    plain("bfloat16", DType::kBF16),
    plain("qint16", DType::kI16, "tensorflow.qint16"),
    plain("quint16", DType::kU16, "tensorflow.quint16"),
    plain("uint16", DType::kU16),
    plain("complex128", DType::kC128),
    plain("float16", DType::kF16),
    {Storage::kRefused, "resource"},
    {Storage::kVariant, "variant", DType::kOpaque, 0, "tensorflow.variant"},
    plain("uint32", DType::kU32),
    plain("uint64", DType::kU64),
    plain("float8_e5m2", DType::kF8E5M2),
    plain("float8_e4m3fn", DType::kF8E4M3FN),
    plain("float8_e4m3fnuz", DType::kF8E4M3FNUZ),
    {Storage::kPlain, "float8_e4m3b11fnuz", DType::kOpaque, 1},
    plain("float8_e5m2fnuz", DType::kF8E5M2FNUZ),
    narrow("int4", DType::kI4, "tensorflow.int4", true),
    narrow("uint4", DType::kU4, "tensorflow.uint4", false),
    narrow("int2", DType::kI2, "tensorflow.int2", true),
    narrow("uint2", DType::kU2, "tensorflow.uint2", false),
    narrow("float4_e2m1fn", DType::kF4E2M1FN, "tensorflow.float4_e2m1fn", false),
};

// References to variables, which only a running program has: a type's number and 100.
constexpr std::uint64_t kFirstReference = 101;
constexpr std::uint64_t kLastReference = kFirstReference + std::size(kTypes);

}  // namespace

TensorFlowType tensorflow_type(std::uint64_t number) {
  if (number < std::size(kTypes)) return kTypes[number];
  if (number >= kFirstReference && number <= kLastReference)
    return {Storage::kRefused, "reference"};
  return {};
}

}  // namespace espalier
