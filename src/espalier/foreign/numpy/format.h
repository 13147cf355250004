// The rows of the two formats of NumPy.
#ifndef ESPALIER_FOREIGN_NUMPY_FORMAT_H_
#define ESPALIER_FOREIGN_NUMPY_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kNpyEndings[] = {{".npy", "a NumPy array"}};
inline constexpr FormatInfo kNpyFormat{"npy", "NumPy", kNpyEndings};

inline constexpr FormatEnding kNpzEndings[] = {{".npz", "a NumPy archive"}};
inline constexpr FormatInfo kNpzFormat{"npz", "NumPy", kNpzEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_FORMAT_H_
