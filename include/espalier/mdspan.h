// A tensor's elements as a std::mdspan, and those of one as a tensor, where the standard library
// has it (C++23).
//
//   auto weight = as_mdspan<float, 2>(*view);   // view: a TensorView that lives as long
//   if (!weight) return report(weight.error());
//   float first = (*weight)[0, 0];
//   auto set = state.set("weight", Value::tensor(borrow_tensor(*weight)));
#ifndef ESPALIER_MDSPAN_H_
#define ESPALIER_MDSPAN_H_

#include <version>

#ifdef __cpp_lib_mdspan
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mdspan>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/value.h"

namespace espalier {

/// The elements with one extent for each axis, in C order, without a copy; valid while the view or
/// a copy lives. Errors are those of TensorView::as(), and kInvalidArgument if the tensor has not
/// `Rank` axes or the view's bytes do not fit its shape.
template <Element T, std::size_t Rank>
[[nodiscard]] Result<std::mdspan<const T, std::dextents<std::uint64_t, Rank>>> as_mdspan(
    const TensorView& view) {
  if (view.shape.size() != Rank) {
    return fail(ErrorCode::kInvalidArgument, "the tensor has " + std::to_string(view.shape.size()) +
                                                 " axes, not " + std::to_string(Rank) +
                                                 "; ask for as many as it has");
  }
  const auto elements = view.template as<T>();
  if (!elements) return propagate(elements);
  // A view that a program made itself may be shorter than its shape says.
  if (shape_elements(view.shape) != elements->size()) {
    return fail(ErrorCode::kInvalidArgument, "the view's bytes do not fit its shape");
  }
  // std::mdspan multiplies the axes of an empty shape, too, and its product must fit.
  std::uint64_t product = 1;
  for (const std::uint64_t axis : view.shape) {
    if (axis != 0 && __builtin_mul_overflow(product, axis, &product)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the tensor has no elements, and axes whose product no std::mdspan can have");
    }
  }
  std::array<std::uint64_t, Rank> extents = {};
  for (std::size_t i = 0; i < Rank; ++i) extents[i] = view.shape[i];
  return std::mdspan<const T, std::dextents<std::uint64_t, Rank>>(elements->data(), extents);
}

/// The elements of a temporary view may go with it.
template <Element T, std::size_t Rank>
Result<std::mdspan<const T, std::dextents<std::uint64_t, Rank>>> as_mdspan(TensorView&& view) =
    delete;

namespace detail {

template <class Mdspan>
Tensor tensor_like(const Mdspan& elements, TensorData data) {
  Tensor tensor{.dtype = dtype_of<typename Mdspan::element_type>, .data = std::move(data)};
  for (std::size_t i = 0; i < elements.rank(); ++i) tensor.shape.push_back(elements.extent(i));
  return tensor;
}

}  // namespace detail

/// A tensor whose elements stay where they are: see borrow(). They lie in C order (layout_right);
/// own_tensor() takes others.
template <Element T, class Extents>
Tensor borrow_tensor(std::mdspan<T, Extents> elements) {
  const std::span range(elements.data_handle(), elements.size());
  return detail::tensor_like(elements, TensorData::borrowed(std::as_bytes(range)));
}

/// A tensor with a copy of the elements, of any layout and accessor.
template <Element T, class Extents, class Layout, class Accessor>
Tensor own_tensor(std::mdspan<T, Extents, Layout, Accessor> elements) {
  std::vector<std::byte> packed(elements.size() * sizeof(T));
  std::array<typename Extents::index_type, Extents::rank()> at = {};
  for (std::size_t to = 0; to < packed.size(); to += sizeof(T)) {
    const T element = elements[at];
    std::memcpy(packed.data() + to, &element, sizeof element);
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < elements.extent(axis)) break;
      at[axis] = 0;
    }
  }
  return detail::tensor_like(elements, TensorData::owned(std::move(packed)));
}

}  // namespace espalier
#endif  // __cpp_lib_mdspan

#endif  // ESPALIER_MDSPAN_H_
