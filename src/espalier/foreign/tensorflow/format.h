// The row of TensorFlow's checkpoints.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_FORMAT_H_
#define ESPALIER_FOREIGN_TENSORFLOW_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kTensorFlowEndings[] = {{".index"}};
inline constexpr FormatInfo kTensorFlowFormat{.name = "tensorflow",
                                              .title = "TensorFlow",
                                              .endings = kTensorFlowEndings,
                                              .needs_folder = true};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_FORMAT_H_
