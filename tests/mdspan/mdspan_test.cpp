// Uses espalier/mdspan.h. The compiler that has std::mdspan may bring a standard library
// that the library is not built with, so this program is not linked with it.
#include "espalier/mdspan.h"

#ifndef __cpp_lib_mdspan
#error "this standard library has no std::mdspan"
#endif

#include <cstdio>
#include <vector>

namespace espalier {

// Stands for the library's.
Result<void> TensorView::check_elements(DType wanted, std::size_t) const {
  if (dtype != wanted) return fail(ErrorCode::kWrongKind, "another dtype");
  return {};
}

}  // namespace espalier

int main() {
  using namespace espalier;
  const std::vector<float> elements = {1, 2, 3, 4, 5, 6};
  TensorView view(DType::kF32, {2, 3}, std::as_bytes(std::span(elements)), nullptr);
  const auto matrix = as_mdspan<float, 2>(view);
  if (!matrix || matrix->extent(0) != 2 || matrix->extent(1) != 3) return 1;
  if ((*matrix)[1, 0] != 4 || matrix->data_handle() != elements.data()) return 2;
  const auto vector = as_mdspan<float, 1>(view);
  if (vector || vector.error().code != ErrorCode::kInvalidArgument) return 3;
  const auto doubles = as_mdspan<double, 2>(view);
  if (doubles || doubles.error().code != ErrorCode::kWrongKind) return 4;
  view.shape = {2, 4};
  const auto longer = as_mdspan<float, 2>(view);
  if (longer || longer.error().code != ErrorCode::kInvalidArgument) return 5;
  std::puts("ok");
}
