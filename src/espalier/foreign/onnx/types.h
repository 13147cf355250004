// The types of tensors in ONNX models: TensorProto.DataType, and where their numbers stand.
#ifndef ESPALIER_FOREIGN_ONNX_TYPES_H_
#define ESPALIER_FOREIGN_ONNX_TYPES_H_

#include <cstdint>
#include <string_view>

#include "espalier/dtype.h"

namespace espalier {

/// The fields of a TensorProto, other than raw_data, that hold numbers, by what they hold.
enum class OnnxNumbers : std::uint8_t { kNone, kFloats, kDoubles, kInt32s, kInt64s, kUint64s };

/// What a type number means.
struct OnnxType {
  /// ONNX's name in lower case, with "onnx." before it: "onnx.int4". Empty for a number that has no
  /// meaning.
  std::string_view name;
  /// Without meaning for strings.
  DType dtype = DType::kOpaque;
  /// The field for its numbers; kNone for strings. Complex numbers are two of them each, elements
  /// of 2 and 4 bits share bytes, which are one number each, and those of 6 bits are one each.
  OnnxNumbers numbers = OnnxNumbers::kNone;
};

inline constexpr std::uint64_t kOnnxFloat = 1;
inline constexpr std::uint64_t kOnnxInt64 = 7;
inline constexpr std::uint64_t kOnnxString = 8;

/// The type with that number; without a name for numbers that ONNX 1.23 does not know.
OnnxType onnx_type(std::uint64_t number);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_TYPES_H_
