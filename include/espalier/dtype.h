// Element types of tensors: their numbers, their C++ types, how many bytes a shape of them takes,
// and elements in memory.
#ifndef ESPALIER_DTYPE_H_
#define ESPALIER_DTYPE_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "espalier/error.h"

namespace espalier {

/// The type of a tensor's elements. The numbers are those of the file format and never change.
/// The names are those of ml_dtypes and the OCP MX specification.
enum class DType : std::uint8_t {
  kBool = 1,  // one byte, 0 or 1
  kI8 = 2,
  kU8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kF16 = 10,   // IEEE 754 binary16
  kBF16 = 11,  // the upper half of a binary32
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,   // two f32: real, imaginary
  kC128 = 15,  // two f64: real, imaginary
  kF8E4M3FN = 16,
  kF8E5M2 = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2FNUZ = 19,
  kF8E8M0FNU = 20,
  kF4E2M1FN = 21,  // narrower than a byte: packed from the low bits on
  kI4 = 22,
  kU4 = 23,
  kI2 = 24,
  kU2 = 25,
  kF6E2M3FN = 26,
  kF6E3M2FN = 27,
  kOpaque = 28,  // blocks of a quantised format; see BlockType
};

/// The largest number of a DType; they start at 1 and have no gaps.
inline constexpr std::uint8_t kLastDType = 28;

/// A layout of quantised elements that the library stores without understanding it: `elements`
/// elements in `bytes` bytes (for example ggml's Q4_0: 32 elements in 18 bytes).
struct BlockType {
  std::string_view name;
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;

  friend bool operator==(const BlockType&, const BlockType&) = default;
};

/// The bits of one element by the number of its DType. A table, because every opened or listed
/// tensor needs it. Not inside dtype_bits(), where each call would build the table again.
inline constexpr std::array<std::uint8_t, kLastDType + 1> kDTypeBits = {
    0,   8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 64,
    128, 8, 8, 8, 8,  8,  4,  4,  4,  2,  2,  6,  6,  0};

/// Bits of one element; 0 for kOpaque, whose block type determines it.
constexpr std::uint32_t dtype_bits(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return number < kDTypeBits.size() ? kDTypeBits[number] : 0;
}

/// The short name, for example "bf16" or "f8_e4m3fn". Never empty for a valid DType.
std::string_view dtype_name(DType dtype);

/// The DType with that short name, if any.
std::optional<DType> dtype_from_name(std::string_view name);

/// The DType with that number, if any: the check for a byte that came from a file.
constexpr std::optional<DType> dtype_from_number(std::uint8_t number) {
  if (number == 0 || number > kLastDType) return std::nullopt;
  return static_cast<DType>(number);
}

/// Whether the elements are floating-point or complex numbers: true of kC64 and kC128, too, whose
/// elements no float or double holds. To leave these out, compare with both.
constexpr bool dtype_is_floating(DType dtype) {
  return (dtype >= DType::kF16 && dtype <= DType::kF4E2M1FN) || dtype == DType::kF6E2M3FN ||
         dtype == DType::kF6E3M2FN;
}

/// std::complex of float or double, or a class like it: its real part, then its imaginary part.
template <class T>
concept ComplexNumber = std::is_trivially_copyable_v<T> && requires(const T& z) {
  requires std::same_as<typename T::value_type, float> ||
      std::same_as<typename T::value_type, double>;
  { z.real() } -> std::same_as<typename T::value_type>;
  { z.imag() } -> std::same_as<typename T::value_type>;
  T(z.real(), z.imag());
} && sizeof(T) == 2 * sizeof(typename T::value_type);

/// A complex number of a tree, without <complex>: it comes from a std::complex, and becomes one.
class Complex {
 public:
  using value_type = double;

  constexpr Complex(double real = 0, double imaginary = 0) : real_(real), imaginary_(imaginary) {}
  template <ComplexNumber T>
  requires(!std::same_as<T, Complex>) constexpr Complex(const T& z)
      : real_(z.real()), imaginary_(z.imag()) {}

  constexpr double real() const { return real_; }
  constexpr double imag() const { return imaginary_; }

  /// Only as wide a type: std::complex<double>.
  template <ComplexNumber T>
  requires(!std::same_as<T, Complex> && sizeof(T) == 2 * sizeof(double)) constexpr operator T()
      const {
    return T(real_, imaginary_);
  }

  /// As numbers: 0 equals -0, and NaN nothing.
  friend constexpr bool operator==(const Complex&, const Complex&) = default;

 private:
  double real_;
  double imaginary_;
};

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
/// std::complex<float>, std::complex<double> and Complex.
template <ComplexNumber T>
struct DTypeOf<T> {
  static constexpr DType value = sizeof(T) == 2 * sizeof(float) ? DType::kC64 : DType::kC128;
};

// GCC before 13 has the macro on other machines than x86, too, and the type there in C alone.
#if defined(__FLT16_MAX__) && \
    (defined(__clang__) || defined(__x86_64__) || defined(__i386__) || __GNUC__ >= 13)
/// std::float16_t, too, where C++ has it.
template <>
struct DTypeOf<_Float16> {
  static constexpr DType value = DType::kF16;
};
#endif
#ifdef __STDCPP_BFLOAT16_T__
/// std::bfloat16_t.
template <>
struct DTypeOf<decltype(0.0bf16)> {
  static constexpr DType value = DType::kBF16;
};
#endif

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

#ifdef __clang__
#define ESPALIER_OWNER [[gsl::Owner]]
#define ESPALIER_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define ESPALIER_OWNER
#define ESPALIER_LIFETIMEBOUND
#endif

/// Elements in memory, and what keeps them there: they outlive the view, file and result that they
/// come from. A contiguous range. A std::span of it is valid as long as this or a copy lives; a
/// temporary one converts to none, nor does it give pointers.
template <class T>
class ESPALIER_OWNER Elements {
 public:
  using LendsWhatEndsWithIt = void;
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;

  Elements() = default;
  /// `keeper` keeps the elements alive; if it is null, you do.
  Elements(std::span<const T> elements, std::shared_ptr<const void> keeper)
      : elements_(elements), keeper_(std::move(keeper)) {}

  std::size_t size() const { return elements_.size(); }
  bool empty() const { return elements_.empty(); }
  /// Element `i`, which must be less than size().
  T operator[](std::size_t i) const { return elements_[i]; }
  /// The first and the last element. Do not call these if empty().
  T front() const { return elements_.front(); }
  T back() const { return elements_.back(); }

  const T* data() const& { return elements_.data(); }
  const T* data() && = delete;
  const T* begin() const& { return elements_.data(); }
  const T* begin() && = delete;
  const T* end() const& { return elements_.data() + elements_.size(); }
  const T* end() && = delete;
  std::span<const T> span() const& { return elements_; }
  std::span<const T> span() && = delete;
  operator std::span<const T>() && = delete;

  /// What keeps the elements alive; null if the caller does.
  const std::shared_ptr<const void>& keeper() const& { return keeper_; }
  std::shared_ptr<const void> keeper() && { return std::move(keeper_); }

 private:
  std::span<const T> elements_;
  std::shared_ptr<const void> keeper_;
};

/// Logical bytes of a chunk; only a tensor's last chunk is shorter.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
/// Every tensor's first byte stands at a multiple of this.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// Axes that a shape may have. numpy's own bound; it keeps work on shapes linear in the size of the
/// index.
inline constexpr std::uint32_t kMaxRank = 64;

/// Bytes of a tensor stay below 2^63, so that aligning and adding positions cannot wrap.
inline constexpr std::uint64_t kMaxTensorBytes = (std::uint64_t{1} << 63) - 1;

/// Elements of a shape: the product of its axes, 0 if one of them is 0, 1 if there are none;
/// nothing if the product does not fit in a u64.
inline std::optional<std::uint64_t> shape_elements(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::uint64_t axis : shape) {
    overflow |= __builtin_mul_overflow(elements, axis, &elements);
    empty |= axis == 0;
  }
  // An axis of 0 decides, so that [0, 2^63, 2^63] is empty and not an overflow.
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional(elements);
}

/// Bytes of a packed tensor. `block` matters for kOpaque only. kTensorInvalid, with a sentence, if
/// the size overflows, if the bits are no whole bytes, or if blocks do not divide the last axis.
[[nodiscard]] Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::uint64_t> shape,
                                                 const BlockType& block = {});

/// The same, quickly, for the usual case: elements of one or more whole bytes and a valid size.
/// Nothing in every other case, for which tensor_bytes() has the answer.
constexpr std::optional<std::uint64_t> usual_tensor_bytes(DType dtype, std::uint64_t elements) {
  const std::uint32_t bits = dtype_bits(dtype);
  std::uint64_t bytes = 0;
  if (bits == 0 || bits % 8 != 0 ||
      __builtin_mul_overflow(elements, std::uint64_t{bits / 8}, &bytes) ||
      bytes > kMaxTensorBytes) {
    return std::nullopt;
  }
  return bytes;
}

inline std::optional<std::uint64_t> usual_tensor_bytes(DType dtype,
                                                       std::span<const std::uint64_t> shape) {
  const auto elements = shape_elements(shape);
  return elements ? usual_tensor_bytes(dtype, *elements) : std::nullopt;
}

/// Chunks that hold `bytes` bytes.
constexpr std::uint64_t chunk_count(std::uint64_t bytes) {
  return bytes / kChunkBytes + (bytes % kChunkBytes != 0 ? 1 : 0);
}

/// Logical bytes of chunk number `chunk` (from 0) of a tensor of `bytes` bytes.
constexpr std::uint64_t chunk_length(std::uint64_t bytes, std::uint64_t chunk) {
  const std::uint64_t left = bytes - chunk * kChunkBytes;
  return left < kChunkBytes ? left : kChunkBytes;
}

}  // namespace espalier

#endif  // ESPALIER_DTYPE_H_
