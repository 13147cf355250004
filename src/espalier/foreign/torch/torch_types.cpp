#include "espalier/foreign/torch/torch_types.h"

namespace espalier {
namespace {

constexpr std::string_view kPairs = "float4_e2m1fn_x2";

struct TorchType {
  std::string_view name;  // torch.<name>
  std::string_view stem;  // torch.<stem>Storage and torch.<stem>Tensor; empty if there is none
  DType dtype;
};
// https://pytorch.org/docs/stable/tensor_attributes.html
constexpr TorchType kTorchTypes[] = {
    {"float64", "Double", DType::kF64},
    {"float32", "Float", DType::kF32},
    {"float16", "Half", DType::kF16},
    {"bfloat16", "BFloat16", DType::kBF16},
    {"int64", "Long", DType::kI64},
    {"int32", "Int", DType::kI32},
    {"int16", "Short", DType::kI16},
    {"int8", "Char", DType::kI8},
    {"uint8", "Byte", DType::kU8},
    {"bool", "Bool", DType::kBool},
    {"complex64", "ComplexFloat", DType::kC64},
    {"complex128", "ComplexDouble", DType::kC128},
    {"qint8", "QInt8", DType::kI8},
    {"quint8", "QUInt8", DType::kU8},
    {"qint32", "QInt32", DType::kI32},
    {"uint16", "", DType::kU16},
    {"uint32", "", DType::kU32},
    {"uint64", "", DType::kU64},
    {"float8_e4m3fn", "", DType::kF8E4M3FN},
    {"float8_e5m2", "", DType::kF8E5M2},
    {"float8_e4m3fnuz", "", DType::kF8E4M3FNUZ},
    {"float8_e5m2fnuz", "", DType::kF8E5M2FNUZ},
    {"float8_e8m0fnu", "", DType::kF8E8M0FNU},
    {kPairs, "", DType::kF4E2M1FN},
};

struct OpaqueType {
  std::string_view name;
  std::string_view block;
  std::uint32_t bytes;
};
constexpr OpaqueType kOpaqueTypes[] = {
    {"complex32", "torch.complex32", 4}, {"bits8", "torch.bits8", 1},
    {"bits16", "torch.bits16", 2},       {"bits1x8", "torch.bits1x8", 1},
    {"bits2x4", "torch.bits2x4", 1},     {"bits4x2", "torch.bits4x2", 1},
};

}  // namespace

std::optional<TorchElement> find_torch_type(std::string_view name) {
  for (const TorchType& type : kTorchTypes) {
    if (type.name == name) return TorchElement{type.dtype, {}, name == kPairs};
  }
  for (const OpaqueType& type : kOpaqueTypes) {
    if (type.name == name) return TorchElement{DType::kOpaque, {type.block, 1, type.bytes}, false};
  }
  return std::nullopt;
}

std::optional<DType> torch_class_dtype(PickleGlobal global, std::string_view ending) {
  if (global.module != "torch" && global.module != "torch.cuda") return std::nullopt;
  if (!global.name.ends_with(ending)) return std::nullopt;
  const std::string_view stem = global.name.substr(0, global.name.size() - ending.size());
  for (const TorchType& type : kTorchTypes) {
    if (!type.stem.empty() && type.stem == stem) return type.dtype;
  }
  return std::nullopt;
}

bool is_untyped_storage(PickleGlobal global) {
  return global.module == "torch.storage" &&
         (global.name == "UntypedStorage" || global.name == "_UntypedStorage");
}

std::optional<std::uint64_t> storage_width(const PickleGraph& graph, PickleRef ref) {
  if (graph.type(ref) != PickleType::kGlobal) return std::nullopt;
  const PickleGlobal global = graph.global(ref);
  if (is_untyped_storage(global)) return 1;
  const auto dtype = torch_class_dtype(global, "Storage");
  return dtype ? std::optional<std::uint64_t>(dtype_bits(*dtype) / 8) : std::nullopt;
}

}  // namespace espalier
