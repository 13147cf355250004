// Decodes a tensor's packed bytes to numbers, for printing, statistics and comparisons.
#ifndef ESPALIER_TREE_ELEMENTS_H_
#define ESPALIER_TREE_ELEMENTS_H_

#include <complex>
#include <cstdint>
#include <span>

#include "espalier/bytes.h"
#include "espalier/dtype.h"

namespace espalier {

/// The C++ type that holds every value of a dtype exactly.
enum class ElementType : std::uint8_t {
  kInt64,       // std::int64_t: bool and all integers but u64
  kUint64,      // std::uint64_t: u64
  kFloat64,     // double: all real floating-point types
  kComplex128,  // std::complex<double>
  kNone,        // opaque blocks: the library does not know their encoding
};

/// The type that decode_elements() needs for `dtype`.
ElementType element_type(DType dtype);

/// Decodes `out.size()` elements from element `first` on. `packed` holds elements of `dtype` from
/// its first bit on; `T` is the C++ type of element_type(dtype). Exact: a NaN becomes a NaN, and
/// infinities and the sign of zero are kept. A bool is 1 if its byte is not 0. Does nothing if
/// `packed` is too short or `T` is another type. Thread-safe.
template <class T>
void decode_elements(DType dtype, ByteSpan packed, std::uint64_t first, std::span<T> out);

extern template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<std::int64_t>);
extern template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<std::uint64_t>);
extern template void decode_elements(DType, ByteSpan, std::uint64_t, std::span<double>);
extern template void decode_elements(DType, ByteSpan, std::uint64_t,
                                     std::span<std::complex<double>>);

/// The number of elements in `bytes` whole bytes; 0 for opaque blocks.
constexpr std::uint64_t elements_in(std::uint64_t bytes, std::uint32_t bits_each) {
  // Bytes are counted in groups of `bits_each`, because eight times a file size may not fit.
  return bits_each == 0 ? 0 : bytes / bits_each * 8 + bytes % bits_each * 8 / bits_each;
}

}  // namespace espalier

#endif  // ESPALIER_TREE_ELEMENTS_H_
