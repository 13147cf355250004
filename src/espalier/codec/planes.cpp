#include "espalier/codec/planes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace espalier {
namespace {

// Compilers vectorise the loops below because they work on bytes: as words, elements would be
// widened and narrowed again. The pragma tells them that a loop's stores do not alias its loads.
// The result is the same without it.
#if defined(__clang__)
// With sanitizers, or on a machine without vectors, the loops stay scalar; that is fine.
#pragma clang diagnostic ignored "-Wpass-failed"
#define ESPALIER_NO_OVERLAP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define ESPALIER_NO_OVERLAP _Pragma("GCC ivdep")
#else
#define ESPALIER_NO_OVERLAP
#endif

using Byte = unsigned char;  // unlike std::byte, can be shifted without a cast

// An element's upper two bytes: s eeeeeee | e mmmmmmm becomes eeeeeeee | s mmmmmmm.
constexpr void move_sign_down(Byte& top, Byte& next) {
  const Byte exponent = static_cast<Byte>(top << 1 | next >> 7);
  next = static_cast<Byte>((top & 0x80) | (next & 0x7F));
  top = exponent;
}

constexpr void move_sign_up(Byte& top, Byte& next) {
  const Byte sign_and_exponent = static_cast<Byte>((next & 0x80) | top >> 1);
  next = static_cast<Byte>(top << 7 | (next & 0x7F));
  top = sign_and_exponent;
}

// Local copies of the pointers: a store into a plane cannot change them.
template <std::size_t width, class To, class From>
std::array<To*, width> as_bytes(const PlanePointers<From>& planes) {
  std::array<To*, width> bytes;
  for (std::size_t k = 0; k < width; ++k) bytes[k] = reinterpret_cast<To*>(planes[k]);
  return bytes;
}

template <std::size_t width, bool is_float>
void split(ByteSpan elements, const PlanePointers<std::byte>& planes) {
  const Byte* __restrict from = reinterpret_cast<const Byte*>(elements.data());
  const auto to = as_bytes<width, Byte>(planes);
  const std::size_t n = elements.size() / width;
  ESPALIER_NO_OVERLAP
  for (std::size_t i = 0; i < n; ++i) {
    Byte element[width];
    for (std::size_t k = 0; k < width; ++k) element[k] = from[i * width + k];
    if constexpr (is_float) move_sign_down(element[width - 1], element[width - 2]);
    for (std::size_t k = 0; k < width; ++k) to[k][i] = element[k];
  }
}

template <std::size_t width>
void split_elements(bool is_float, ByteSpan elements, const PlanePointers<std::byte>& planes) {
  is_float ? split<width, true>(elements, planes) : split<width, false>(elements, planes);
}

#if defined(__wasm_simd128__)
// For WebAssembly, Clang 14 compiles such a loop to single-byte stores, not to shuffles.
using Vector __attribute__((vector_size(16))) = Byte;

// Merges 16 elements at a time, and returns how many it has merged.
template <std::size_t width>
std::size_t merge_vectors(bool is_float, const std::array<const Byte*, width>& from, Byte* to,
                          std::size_t n) {
  std::size_t i = 0;
  for (; i + sizeof(Vector) <= n; i += sizeof(Vector)) {
    std::array<Vector, width> v;
    for (std::size_t k = 0; k < width; ++k) std::memcpy(&v[k], from[k] + i, sizeof(Vector));
    if (is_float) {
      const Vector top = v[width - 1];
      const Vector next = v[width - 2];
      v[width - 1] = (next & 0x80) | (top >> 1);
      v[width - 2] = (top << 7) | (next & 0x7F);
    }
    // Each round interleaves units twice as wide as the round before.
    for (std::size_t done = 1; done < width; done *= 2) {
      const std::array<Vector, width> u = v;
      for (std::size_t k = 0; k < width / 2; ++k) {
        v[2 * k] = __builtin_shufflevector(u[k], u[k + width / 2], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                           20, 5, 21, 6, 22, 7, 23);
        v[2 * k + 1] = __builtin_shufflevector(u[k], u[k + width / 2], 8, 24, 9, 25, 10, 26, 11, 27,
                                               12, 28, 13, 29, 14, 30, 15, 31);
      }
    }
    for (std::size_t k = 0; k < width; ++k) {
      std::memcpy(to + i * width + k * sizeof(Vector), &v[k], sizeof(Vector));
    }
  }
  return i;
}

template <std::size_t width>
void merge_elements(bool is_float, const PlanePointers<const std::byte>& planes,
                    MutableByteSpan elements) {
  Byte* to = reinterpret_cast<Byte*>(elements.data());
  const auto from = as_bytes<width, const Byte>(planes);
  const std::size_t n = elements.size() / width;
  for (std::size_t i = merge_vectors<width>(is_float, from, to, n); i < n; ++i) {
    Byte* const element = to + i * width;
    for (std::size_t k = 0; k < width; ++k) element[k] = from[k][i];
    if (is_float) move_sign_up(element[width - 1], element[width - 2]);
  }
}
#else
template <std::size_t width, bool is_float>
void merge(const PlanePointers<const std::byte>& planes, MutableByteSpan elements) {
  Byte* __restrict to = reinterpret_cast<Byte*>(elements.data());
  const auto from = as_bytes<width, const Byte>(planes);
  const std::size_t n = elements.size() / width;
  ESPALIER_NO_OVERLAP
  for (std::size_t i = 0; i < n; ++i) {
    Byte element[width];
    for (std::size_t k = 0; k < width; ++k) element[k] = from[k][i];
    if constexpr (is_float) move_sign_up(element[width - 1], element[width - 2]);
    for (std::size_t k = 0; k < width; ++k) to[i * width + k] = element[k];
  }
}

template <std::size_t width>
void merge_elements(bool is_float, const PlanePointers<const std::byte>& planes,
                    MutableByteSpan elements) {
  is_float ? merge<width, true>(planes, elements) : merge<width, false>(planes, elements);
}
#endif

}  // namespace

void split_planes(ElementLayout layout, ByteSpan elements, const PlanePointers<std::byte>& planes) {
  switch (layout.width) {
    case 2:
      return split_elements<2>(layout.is_float, elements, planes);
    case 4:
      return split_elements<4>(layout.is_float, elements, planes);
    case 8:
      return split_elements<8>(layout.is_float, elements, planes);
    default:
      std::copy(elements.begin(), elements.end(), planes[0]);
  }
}

void merge_planes(ElementLayout layout, const PlanePointers<const std::byte>& planes,
                  MutableByteSpan elements) {
  switch (layout.width) {
    case 2:
      return merge_elements<2>(layout.is_float, planes, elements);
    case 4:
      return merge_elements<4>(layout.is_float, planes, elements);
    case 8:
      return merge_elements<8>(layout.is_float, planes, elements);
    default:
      std::copy_n(planes[0], elements.size(), elements.begin());
  }
}

}  // namespace espalier
