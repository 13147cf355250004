// NumPy's names of element types.
#ifndef ESPALIER_FOREIGN_NUMPY_NUMPY_TYPE_H_
#define ESPALIER_FOREIGN_NUMPY_NUMPY_TYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/dtype.h"

namespace espalier {

/// One type of elements.
struct NumpyType {
  /// kOpaque for what the library has no dtype for: text, dates, raw bytes.
  DType dtype = DType::kOpaque;
  /// Of one element; 0 for text of no characters.
  std::uint64_t bytes = 0;
  /// The bytes of each number are in reverse order.
  bool is_swapped = false;
  /// The elements are Python objects.
  bool has_objects = false;
};

/// The type that "<f4", "|S2", "<M8[ns]", "|O" names: an order of bytes, which may be missing, a
/// kind and a size. Nothing for any other text.
/// https://numpy.org/doc/stable/reference/arrays.interface.html
std::optional<NumpyType> parse_numpy_type(std::string_view text);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_NUMPY_TYPE_H_
