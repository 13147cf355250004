// The only tensor of a state, for formats that hold one tensor.
#ifndef ESPALIER_CLI_WRITING_ONE_TENSOR_H_
#define ESPALIER_CLI_WRITING_ONE_TENSOR_H_

#include <memory>
#include <string>

#include "espalier/error.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/value.h"

namespace espalier::cli {

struct OneTensor {
  std::shared_ptr<const Tensor> tensor;
  /// Its key path in the state.
  std::string path;
  /// Scalars, placeholders, the tensor's label and names of axes, metadata.
  Losses left_out;
};

/// Finds the tensor. Its key path and the containers on the way to it are no losses, because one
/// tensor is what was asked for. kUnrepresentable if there are several tensors or none, or if there
/// are scalars or placeholders and not `drop`. Recurses as deep as the tree.
[[nodiscard]] Result<OneTensor> find_one_tensor(const Value& state, const Value& metadata,
                                                bool drop);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_ONE_TENSOR_H_
