// Reads the header of a .npy file: which elements follow, and how they lie.
#ifndef ESPALIER_FOREIGN_NUMPY_READ_NPY_HEADER_H_
#define ESPALIER_FOREIGN_NUMPY_READ_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/error.h"

namespace espalier {

/// No header is longer. NumPy itself refuses more than 10,000 bytes unless it trusts the file.
inline constexpr std::uint64_t kMaxNpyHeaderBytes = 64 * 1024;
/// With so many bytes of a file npy_header_bytes() knows how long its header is.
inline constexpr std::size_t kNpyPreludeBytes = 12;

/// What a header says.
struct NpyArray {
  /// kOpaque, with a block of one element, for what the library has no dtype for: text, dates, raw
  /// and structured elements. Their bytes are kept as they are, and `block.name` is NumPy's name.
  DType dtype = DType::kOpaque;
  BlockType block;
  /// Bytes of one element; 0 for text of no characters.
  std::uint64_t item_bytes = 0;
  /// The bytes of each number are in reverse order.
  bool is_swapped = false;
  /// The first axis is the fastest.
  bool is_fortran = false;
  /// The elements are Python objects, stored as a pickle.
  bool has_objects = false;
  std::vector<std::uint64_t> shape;
  /// Bytes before the elements.
  std::uint64_t header_bytes = 0;
};

/// Whether a file that begins with `front` is a .npy file.
bool looks_like_npy(ByteSpan front, std::uint64_t file_size);

/// Bytes before the elements, of a file that begins with `front`: kNpyPreludeBytes of it, or all.
/// kForeignInvalid if it is no .npy file, kUnsupportedVersion, kLimitExceeded for more than
/// kMaxNpyHeaderBytes.
[[nodiscard]] Result<std::uint64_t> npy_header_bytes(ByteSpan front);

/// Reads the header in `header`: npy_header_bytes() bytes, which `block.name` points into.
/// kForeignInvalid for what NumPy does not write; the error's offset counts from the beginning of
/// `header`.
[[nodiscard]] Result<NpyArray> read_npy_header(ByteSpan header);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_READ_NPY_HEADER_H_
