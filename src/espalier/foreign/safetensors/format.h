// The row of safetensors.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_FORMAT_H_
#define ESPALIER_FOREIGN_SAFETENSORS_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kSafetensorsEndings[] = {{".safetensors", "a safetensors file"}};
inline constexpr FormatInfo kSafetensorsFormat{"safetensors", "safetensors", kSafetensorsEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_FORMAT_H_
