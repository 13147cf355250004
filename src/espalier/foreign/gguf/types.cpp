#include "espalier/foreign/gguf/types.h"

#include <iterator>

namespace espalier {
namespace {

// By number, as in ggml.h. What has no size was removed.
constexpr GgufTensorType kGgufTypes[] = {
    {"gguf.f32", DType::kF32},
    {"gguf.f16", DType::kF16},
    {"gguf.q4_0", DType::kOpaque, 32, 18},
    {"gguf.q4_1", DType::kOpaque, 32, 20},
    {"gguf.q4_2"},
    {"gguf.q4_3"},
    {"gguf.q5_0", DType::kOpaque, 32, 22},
    {"gguf.q5_1", DType::kOpaque, 32, 24},
    {"gguf.q8_0", DType::kOpaque, 32, 34},
    {"gguf.q8_1", DType::kOpaque, 32, 36},
    {"gguf.q2_K", DType::kOpaque, 256, 84},
    {"gguf.q3_K", DType::kOpaque, 256, 110},
    {"gguf.q4_K", DType::kOpaque, 256, 144},
    {"gguf.q5_K", DType::kOpaque, 256, 176},
    {"gguf.q6_K", DType::kOpaque, 256, 210},
    {"gguf.q8_K", DType::kOpaque, 256, 292},
    {"gguf.iq2_xxs", DType::kOpaque, 256, 66},
    {"gguf.iq2_xs", DType::kOpaque, 256, 74},
    {"gguf.iq3_xxs", DType::kOpaque, 256, 98},
    {"gguf.iq1_s", DType::kOpaque, 256, 50},
    {"gguf.iq4_nl", DType::kOpaque, 32, 18},
    {"gguf.iq3_s", DType::kOpaque, 256, 110},
    {"gguf.iq2_s", DType::kOpaque, 256, 82},
    {"gguf.iq4_xs", DType::kOpaque, 256, 136},
    {"gguf.i8", DType::kI8},
    {"gguf.i16", DType::kI16},
    {"gguf.i32", DType::kI32},
    {"gguf.i64", DType::kI64},
    {"gguf.f64", DType::kF64},
    {"gguf.iq1_m", DType::kOpaque, 256, 56},
    {"gguf.bf16", DType::kBF16},
    {"gguf.q4_0_4_4"},
    {"gguf.q4_0_4_8"},
    {"gguf.q4_0_8_8"},
    {"gguf.tq1_0", DType::kOpaque, 256, 54},
    {"gguf.tq2_0", DType::kOpaque, 256, 66},
    {"gguf.iq4_nl_4_4"},
    {"gguf.iq4_nl_4_8"},
    {"gguf.iq4_nl_8_8"},
    {"gguf.mxfp4", DType::kOpaque, 32, 17},
    {"gguf.nvfp4", DType::kOpaque, 64, 36},
    {"gguf.q1_0", DType::kOpaque, 128, 18},
    {"gguf.q2_0", DType::kOpaque, 64, 18},
};

}  // namespace

GgufTensorType gguf_tensor_type(std::uint32_t number) {
  return number < std::size(kGgufTypes) ? kGgufTypes[number] : GgufTensorType{};
}

}  // namespace espalier
