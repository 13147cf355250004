// A tensor's elements as a std::mdspan, where the standard library has it (C++23).
//
//   auto weight = as_mdspan<float, 2>(*view);   // view: a TensorView that lives as long
//   if (!weight) return report(weight.error());
//   float first = (*weight)[0, 0];
#ifndef ESPALIER_MDSPAN_H_
#define ESPALIER_MDSPAN_H_

#include <version>

#ifdef __cpp_lib_mdspan
#include <array>
#include <cstddef>
#include <cstdint>
#include <mdspan>
#include <string>

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/error.h"

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
  std::array<std::uint64_t, Rank> extents = {};
  for (std::size_t i = 0; i < Rank; ++i) extents[i] = view.shape[i];
  return std::mdspan<const T, std::dextents<std::uint64_t, Rank>>(elements->data(), extents);
}

/// The elements of a temporary view may go with it.
template <Element T, std::size_t Rank>
Result<std::mdspan<const T, std::dextents<std::uint64_t, Rank>>> as_mdspan(TensorView&& view) =
    delete;

}  // namespace espalier
#endif  // __cpp_lib_mdspan

#endif  // ESPALIER_MDSPAN_H_
