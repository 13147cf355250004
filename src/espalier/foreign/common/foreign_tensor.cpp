#include "espalier/foreign/common/foreign_tensor.h"

#include "espalier/base/checked.h"
#include "espalier/dtype.h"

namespace espalier {

std::optional<std::uint64_t> reached_elements(const ForeignTensor& tensor) {
  const auto elements = shape_elements(tensor.shape);
  if (!elements || *elements == 0 || tensor.strides.empty()) return elements;
  std::uint64_t last = 0;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const auto reach = checked_mul(tensor.shape[axis] - 1, tensor.strides[axis]);
    const auto sum = reach ? checked_add(last, *reach) : std::nullopt;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  return checked_add(last, 1);
}

bool is_packed(const ForeignTensor& tensor) {
  if (tensor.strides.empty() || shape_elements(tensor.shape) == 0) return true;
  std::uint64_t packed = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] == 1) continue;
    if (tensor.strides[axis] != packed) return false;
    // The product fits: it is that of axes whose product was found to fit.
    packed *= tensor.shape[axis];
  }
  return true;
}

void add_foreign_tensor(TableBuilder& builder, const ForeignTensor& tensor) {
  builder.tensor({tensor.dtype, tensor.shape, tensor.block});
  StorageRecord form;
  form.flags = tensor.flags;
  if (!is_packed(tensor)) {
    form.flags |= kStorageStrided;
    form.elements = reached_elements(tensor).value_or(0);
  }
  if (form.flags != 0) builder.storage(form, tensor.strides);
  builder.place(tensor.file, tensor.offset);
}

}  // namespace espalier
