// The row of ONNX.
#ifndef ESPALIER_FOREIGN_ONNX_FORMAT_H_
#define ESPALIER_FOREIGN_ONNX_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kOnnxEndings[] = {{".onnx", "an ONNX file"}};
inline constexpr FormatInfo kOnnxFormat{"onnx", "ONNX", kOnnxEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_FORMAT_H_
