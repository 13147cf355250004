// C++ types as elements of tensors.
//
//   template <>
//   struct espalier::DTypeOf<my::bfloat16> {  // a type of one's own
//     static constexpr DType value = DType::kBF16;
//   };
#ifndef ESPALIER_TREE_DTYPE_OF_H_
#define ESPALIER_TREE_DTYPE_OF_H_

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "espalier/tree/dtype.h"

namespace espalier {

/// Tells the DType of a C++ type in its member `value`; types without one are no elements.
/// Specialise it for types of your own. Each must be trivially copyable and as wide as its DType.
template <class T>
struct DTypeOf {};

template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::kC64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::kC128;
};

/// All integers but the character types, which would be text by mistake.
template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
         !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t> &&
         sizeof(T) <= 8) struct DTypeOf<T> {
  static constexpr DType value = [] {
    constexpr bool kSigned = std::is_signed_v<T>;
    if (sizeof(T) == 1) return kSigned ? DType::kI8 : DType::kU8;
    if (sizeof(T) == 2) return kSigned ? DType::kI16 : DType::kU16;
    if (sizeof(T) == 4) return kSigned ? DType::kI32 : DType::kU32;
    return kSigned ? DType::kI64 : DType::kU64;
  }();
};

/// A type whose objects are elements of a tensor.
template <class T>
concept Element = std::is_trivially_copyable_v<T> && requires {
  { DTypeOf<std::remove_const_t<T>>::value } -> std::convertible_to<DType>;
} && 8 * sizeof(T) == dtype_bits(DTypeOf<std::remove_const_t<T>>::value);

/// The DType of a C++ type: dtype_of<float> is DType::kF32.
template <Element T>
inline constexpr DType dtype_of = DTypeOf<std::remove_const_t<T>>::value;

/// A vector, array or span of elements, or anything else that std::span views.
template <class R>
concept ElementRange = requires(R& range) {
  std::span(range);
}
&&Element<typename decltype(std::span(std::declval<R&>()))::element_type>;

}  // namespace espalier

#endif  // ESPALIER_TREE_DTYPE_OF_H_
