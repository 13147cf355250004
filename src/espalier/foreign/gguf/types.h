// The types of tensors in GGUF files: ggml's numbers for them.
#ifndef ESPALIER_FOREIGN_GGUF_TYPES_H_
#define ESPALIER_FOREIGN_GGUF_TYPES_H_

#include <cstdint>
#include <string_view>

#include "espalier/dtype.h"

namespace espalier {

/// What a type number of a GGUF file means here.
struct GgufTensorType {
  /// ggml's name, with "gguf." before it: "gguf.q4_K". Empty for a number that has no meaning.
  std::string_view name;
  /// kOpaque for blocks.
  DType dtype = DType::kOpaque;
  /// Of a block. Both 0 for other dtypes.
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;

  /// Whether ggml has taken the type away, and says no more what its bytes mean.
  bool is_removed() const { return dtype == DType::kOpaque && bytes == 0; }
  BlockType block() const { return bytes == 0 ? BlockType{} : BlockType{name, elements, bytes}; }
};

/// The type with that number; without a name for numbers that ggml had not given out by 2026.
GgufTensorType gguf_tensor_type(std::uint32_t number);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_GGUF_TYPES_H_
