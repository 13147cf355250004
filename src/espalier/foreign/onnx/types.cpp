#include "espalier/foreign/onnx/types.h"

#include <iterator>

namespace espalier {
namespace {

using Numbers = OnnxNumbers;

// By number, as in onnx.proto.
constexpr OnnxType kOnnxTypes[] = {
    {},
    {"onnx.float", DType::kF32, Numbers::kFloats},
    {"onnx.uint8", DType::kU8, Numbers::kInt32s},
    {"onnx.int8", DType::kI8, Numbers::kInt32s},
    {"onnx.uint16", DType::kU16, Numbers::kInt32s},
    {"onnx.int16", DType::kI16, Numbers::kInt32s},
    {"onnx.int32", DType::kI32, Numbers::kInt32s},
    {"onnx.int64", DType::kI64, Numbers::kInt64s},
    {"onnx.string"},
    {"onnx.bool", DType::kBool, Numbers::kInt32s},
    {"onnx.float16", DType::kF16, Numbers::kInt32s},
    {"onnx.double", DType::kF64, Numbers::kDoubles},
    {"onnx.uint32", DType::kU32, Numbers::kUint64s},
    {"onnx.uint64", DType::kU64, Numbers::kUint64s},
    {"onnx.complex64", DType::kC64, Numbers::kFloats},
    {"onnx.complex128", DType::kC128, Numbers::kDoubles},
    {"onnx.bfloat16", DType::kBF16, Numbers::kInt32s},
    {"onnx.float8e4m3fn", DType::kF8E4M3FN, Numbers::kInt32s},
    {"onnx.float8e4m3fnuz", DType::kF8E4M3FNUZ, Numbers::kInt32s},
    {"onnx.float8e5m2", DType::kF8E5M2, Numbers::kInt32s},
    {"onnx.float8e5m2fnuz", DType::kF8E5M2FNUZ, Numbers::kInt32s},
    {"onnx.uint4", DType::kU4, Numbers::kInt32s},
    {"onnx.int4", DType::kI4, Numbers::kInt32s},
    {"onnx.float4e2m1", DType::kF4E2M1FN, Numbers::kInt32s},
    {"onnx.float8e8m0", DType::kF8E8M0FNU, Numbers::kInt32s},
    {"onnx.uint2", DType::kU2, Numbers::kInt32s},
    {"onnx.int2", DType::kI2, Numbers::kInt32s},
    {"onnx.float6e2m3", DType::kF6E2M3FN, Numbers::kInt32s},
    {"onnx.float6e3m2", DType::kF6E3M2FN, Numbers::kInt32s},
};

}  // namespace

OnnxType onnx_type(std::uint64_t number) {
  return number < std::size(kOnnxTypes) ? kOnnxTypes[number] : OnnxType{};
}

}  // namespace espalier
