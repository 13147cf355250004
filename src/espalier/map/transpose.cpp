#include "espalier/map/transpose.h"

#include <algorithm>
#include <cstring>

namespace espalier {
namespace {

// Vectors of GCC and Clang, which make the best of each processor out of them.
using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
using Shorts8 = std::uint16_t __attribute__((vector_size(16)));
using Words4 = std::uint32_t __attribute__((vector_size(16)));
using Longs2 = std::uint64_t __attribute__((vector_size(16)));

template <class Vector>
Vector low_halves(Vector a, Vector b);
template <class Vector>
Vector high_halves(Vector a, Vector b);

template <>
Bytes16 low_halves(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
template <>
Bytes16 high_halves(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}
template <>
Shorts8 low_halves(Shorts8 a, Shorts8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
template <>
Shorts8 high_halves(Shorts8 a, Shorts8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
template <>
Words4 low_halves(Words4 a, Words4 b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
template <>
Words4 high_halves(Words4 a, Words4 b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
template <>
Longs2 low_halves(Longs2 a, Longs2 b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
template <>
Longs2 high_halves(Longs2 a, Longs2 b) {
  return __builtin_shufflevector(a, b, 1, 3);
}

// A square of as many elements as a vector has. Interleaving row k with row k + half, log2 times,
// exchanges rows and columns.
template <class Vector, std::size_t kSize>
void transpose_square(const std::byte* from, std::int64_t from_step, std::byte* to,
                      std::int64_t to_step) {
  Vector rows[kSize];
  for (std::size_t k = 0; k < kSize; ++k) {
    std::memcpy(&rows[k], from + static_cast<std::int64_t>(k) * from_step, sizeof(Vector));
  }
  for (std::size_t round = 1; round < kSize; round *= 2) {
    Vector mixed[kSize];
    for (std::size_t k = 0; k < kSize / 2; ++k) {
      mixed[2 * k] = low_halves(rows[k], rows[k + kSize / 2]);
      mixed[2 * k + 1] = high_halves(rows[k], rows[k + kSize / 2]);
    }
    std::memcpy(rows, mixed, sizeof(rows));
  }
  for (std::size_t k = 0; k < kSize; ++k) {
    std::memcpy(to + static_cast<std::int64_t>(k) * to_step, &rows[k], sizeof(Vector));
  }
}

template <std::size_t kBytes>
void transpose_plainly(const std::byte* from, std::int64_t from_step, std::byte* to,
                       std::int64_t to_step, std::uint64_t rows, std::uint64_t columns) {
  for (std::uint64_t i = 0; i < rows; ++i) {
    for (std::uint64_t k = 0; k < columns; ++k) {
      std::memcpy(to + static_cast<std::int64_t>(i) * to_step + k * kBytes,
                  from + static_cast<std::int64_t>(k) * from_step + i * kBytes, kBytes);
    }
  }
}

template <class Vector, std::size_t kBytes>
void transpose_tiles(const std::byte* from, std::int64_t from_step, std::byte* to,
                     std::int64_t to_step, std::uint64_t rows, std::uint64_t columns) {
  constexpr std::size_t kSquare = sizeof(Vector) / kBytes;
  // Tiles of whole cache lines in both directions, which stay in the first cache.
  constexpr std::uint64_t kTile = std::max<std::uint64_t>(64 / kBytes, kSquare);
  for (std::uint64_t i = 0; i < rows; i += kTile) {
    for (std::uint64_t k = 0; k < columns; k += kTile) {
      const std::uint64_t height = std::min(kTile, rows - i);
      const std::uint64_t width = std::min(kTile, columns - k);
      const std::byte* tile_from = from + static_cast<std::int64_t>(k) * from_step + i * kBytes;
      std::byte* tile_to = to + static_cast<std::int64_t>(i) * to_step + k * kBytes;
      if (height < kTile || width < kTile) {
        transpose_plainly<kBytes>(tile_from, from_step, tile_to, to_step, height, width);
        continue;
      }
      for (std::uint64_t y = 0; y < kTile; y += kSquare) {
        for (std::uint64_t x = 0; x < kTile; x += kSquare) {
          transpose_square<Vector, kSquare>(
              tile_from + static_cast<std::int64_t>(x) * from_step + y * kBytes, from_step,
              tile_to + static_cast<std::int64_t>(y) * to_step + x * kBytes, to_step);
        }
      }
    }
  }
}

}  // namespace

void transpose(std::uint64_t bytes, const std::byte* from, std::int64_t from_step, std::byte* to,
               std::int64_t to_step, std::uint64_t rows, std::uint64_t columns) {
  switch (bytes) {
    case 1:
      return transpose_tiles<Bytes16, 1>(from, from_step, to, to_step, rows, columns);
    case 2:
      return transpose_tiles<Shorts8, 2>(from, from_step, to, to_step, rows, columns);
    case 4:
      return transpose_tiles<Words4, 4>(from, from_step, to, to_step, rows, columns);
    case 8:
      return transpose_tiles<Longs2, 8>(from, from_step, to, to_step, rows, columns);
    default:
      return;
  }
}

}  // namespace espalier
