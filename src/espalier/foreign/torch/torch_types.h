// The names of PyTorch's element types.
#ifndef ESPALIER_FOREIGN_TORCH_TORCH_TYPES_H_
#define ESPALIER_FOREIGN_TORCH_TORCH_TYPES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/dtype.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

struct TorchElement {
  DType dtype = DType::kF32;
  /// For types without a dtype here.
  BlockType block = {};
  /// Whether an item is a byte of two elements.
  bool is_pairs = false;
};

/// The type torch.<name>.
std::optional<TorchElement> find_torch_type(std::string_view name);

/// The type of torch.FloatStorage, torch.cuda.FloatTensor and the like, for `ending` "Storage" or
/// "Tensor".
std::optional<DType> torch_class_dtype(PickleGlobal global, std::string_view ending);

/// Whether this is the class of storages of bytes, which have no type.
bool is_untyped_storage(PickleGlobal global);

/// Bytes of an element of the storage class that `ref` names.
std::optional<std::uint64_t> storage_width(const PickleGraph& graph, PickleRef ref);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_TORCH_TYPES_H_
