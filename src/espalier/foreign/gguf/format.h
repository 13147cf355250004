// The row of GGUF.
#ifndef ESPALIER_FOREIGN_GGUF_FORMAT_H_
#define ESPALIER_FOREIGN_GGUF_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kGgufEndings[] = {{".gguf", "a GGUF file"}};
inline constexpr FormatInfo kGgufFormat{"gguf", "GGUF", kGgufEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_GGUF_FORMAT_H_
