// A tensor of another format, with its storage, on its way into a table builder.
#ifndef ESPALIER_FOREIGN_COMMON_FOREIGN_TENSOR_H_
#define ESPALIER_FOREIGN_COMMON_FOREIGN_TENSOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/format/table_builder.h"

namespace espalier {

/// The label of an opaque block type that stands for an unknown dtype.
inline constexpr char kUnknownDtype[] = "unknown";

/// All that a tensor of another format needs. Strides and offsets are in elements and never
/// negative, as all formats here have them.
struct ForeignTensor {
  DType dtype = DType::kF32;
  BlockType block = {};
  std::vector<std::uint64_t> shape = {};
  /// One for each axis; empty for packed elements in C order.
  std::vector<std::uint64_t> strides = {};
  /// Flags of a StorageRecord but kStorageStrided.
  std::uint8_t flags = 0;
  /// Where the first element lies.
  std::uint16_t file = 0;
  std::uint64_t offset = 0;

  /// Makes it as new, and keeps the memory of its vectors.
  void clear() {
    shape.clear();
    strides.clear();
    *this = {.shape = std::move(shape), .strides = std::move(strides)};
  }
};

/// Elements of the storage from the first to the last that `tensor` reaches; 0 if it has none.
/// Nothing if that overflows.
std::optional<std::uint64_t> reached_elements(const ForeignTensor& tensor);

/// Whether the elements are packed in C order.
bool is_packed(const ForeignTensor& tensor);

/// Adds `tensor` to `builder`, as ours if it is packed. The caller has checked that what it reaches
/// lies in the file.
void add_foreign_tensor(TableBuilder& builder, const ForeignTensor& tensor);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_FOREIGN_TENSOR_H_
