// Uses espalier/mdspan.h. The compiler that has std::mdspan may bring a standard library
// that the library is not built with, so this program is not linked with it.
#include "espalier/mdspan.h"

#ifndef __cpp_lib_mdspan
#error "this standard library has no std::mdspan"
#endif

#include <algorithm>
#include <cstdio>
#include <vector>

namespace espalier {

// Stands for the library's.
Result<void> TensorView::check_elements(DType wanted, std::size_t) const {
  if (dtype != wanted) return fail(ErrorCode::kWrongKind, "another dtype");
  return {};
}
TensorData::TensorData() = default;
TensorData::TensorData(TensorData&&) noexcept = default;
TensorData::~TensorData() = default;
TensorData TensorData::borrowed(ByteSpan bytes) {
  TensorData data;
  data.source_ = Memory{bytes, nullptr};
  return data;
}
TensorData TensorData::owned(std::vector<std::byte> bytes) {
  TensorData data;
  const auto kept = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  data.source_ = Memory{*kept, kept};
  return data;
}
std::optional<ByteSpan> TensorData::memory() const { return std::get<Memory>(source_).bytes; }

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
  // An empty shape whose axes have a product of 2^64.
  const TensorView empty(DType::kF32, {std::uint64_t{1} << 63, 2, 0}, {}, nullptr);
  const auto wide = as_mdspan<float, 3>(empty);
  if (wide || wide.error().code != ErrorCode::kInvalidArgument) return 6;
  const TensorView none(DType::kF32, {7, 0}, {}, nullptr);
  if (!as_mdspan<float, 2>(none)) return 7;

  const Tensor borrowed = borrow_tensor(*matrix);
  if (borrowed.dtype != DType::kF32 || borrowed.shape != std::vector<std::uint64_t>{2, 3}) return 8;
  if (static_cast<const void*>(borrowed.data.memory()->data()) != elements.data()) return 9;
  // In Fortran's order the same six are the transposed of a 3 by 2 matrix.
  const std::mdspan<const float, std::extents<int, 3, 2>, std::layout_left> fortran(
      elements.data());
  const Tensor owned = own_tensor(fortran);
  const std::vector<float> packed = {1, 4, 2, 5, 3, 6};
  if (owned.shape != std::vector<std::uint64_t>{3, 2}) return 10;
  if (!std::ranges::equal(*owned.data.memory(), std::as_bytes(std::span(packed)))) return 11;
  const std::mdspan<const float, std::extents<int>> scalar(elements.data());
  const Tensor one = own_tensor(scalar);
  if (!one.shape.empty() || one.data.memory()->size() != sizeof(float)) return 12;
  std::puts("ok");
}
