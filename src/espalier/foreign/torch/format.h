// The row of PyTorch.
#ifndef ESPALIER_FOREIGN_TORCH_FORMAT_H_
#define ESPALIER_FOREIGN_TORCH_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

// Files of other formats end in .bin, .ckpt and .pickle, too.
inline constexpr FormatEnding kTorchEndings[] = {{".pt", "a PyTorch file"},
                                                 {".pth", "a PyTorch file"},
                                                 {".bin"},
                                                 {".ckpt"},
                                                 {".pkl", "a pickle"},
                                                 {".pickle"}};
inline constexpr FormatInfo kTorchFormat{"torch", "PyTorch", kTorchEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_FORMAT_H_
