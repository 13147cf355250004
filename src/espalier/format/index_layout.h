// Where everything in the FlatBuffer of an index stands: docs/format.md section 7.
#ifndef ESPALIER_FORMAT_INDEX_LAYOUT_H_
#define ESPALIER_FORMAT_INDEX_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "espalier/bytes.h"

namespace espalier {

/// Vectors of an index of version 1.0, and of 1.1: the fields of its root table.
inline constexpr std::size_t kIndexVectors = 15;
inline constexpr std::size_t kMaxIndexVectors = 17;

/// The size of one vector of an index.
struct VectorSize {
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 1;
  std::uint32_t alignment = 1;

  std::uint64_t bytes() const { return elements * element_bytes; }
};
/// Of all vectors of an index, by field: kIndexVectors or kMaxIndexVectors.
using VectorSizes = std::span<const VectorSize>;

/// Bytes of an index of vectors of these sizes.
std::uint64_t index_bytes(VectorSizes sizes);

/// Writes all of an index of vectors of these sizes but their elements. `index` must have
/// index_bytes() bytes.
void write_index_frame(VectorSizes sizes, MutableByteSpan index);

/// The first byte of `index` that does not stand where the one canonical layout of vectors of these
/// sizes has it, or that is padding and not zero; nothing if all is in its place. It looks at all
/// but the vectors' elements. The sizes must be those that the index itself gives, which is how
/// they are known to fit.
std::optional<std::uint64_t> find_misplaced(ByteSpan index, VectorSizes sizes);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_INDEX_LAYOUT_H_
