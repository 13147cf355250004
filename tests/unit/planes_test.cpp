#include "espalier/codec/planes.h"

#include <vector>

#include "support/memory_file.h"
#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

PlanePointers<std::byte> planes_in(Bytes& bytes, std::size_t n, std::size_t width) {
  PlanePointers<std::byte> planes = {};
  for (std::size_t k = 0; k < width; ++k) planes[k] = bytes.data() + k * n;
  return planes;
}

Bytes split(ElementLayout layout, const Bytes& elements) {
  Bytes planes(elements.size());
  split_planes(layout, elements, planes_in(planes, elements.size() / layout.width, layout.width));
  return planes;
}

Bytes merge(ElementLayout layout, Bytes planes) {
  Bytes elements(planes.size());
  PlanePointers<const std::byte> pointers = {};
  const auto mutable_pointers = planes_in(planes, planes.size() / layout.width, layout.width);
  for (std::size_t k = 0; k < layout.width; ++k) pointers[k] = mutable_pointers[k];
  merge_planes(layout, pointers, elements);
  return elements;
}

TEST_CASE("The exponent is the highest plane of a float, and the sign is below it") {
  using testing::bytes_of;
  // bf16: -1.0 is 1 01111111 0000000, and 1.984375 is 0 01111111 1111110.
  CHECK(split({2, true}, bytes_of<std::uint16_t>({0xBF80, 0x3FFE})) ==
        bytes_of<std::uint8_t>({0x80, 0x7E, 0x7F, 0x7F}));
  CHECK(split({4, true}, bytes_of<std::uint32_t>({0xBF812345})) ==
        bytes_of<std::uint8_t>({0x45, 0x23, 0x81, 0x7F}));
  CHECK(split({8, true}, bytes_of<std::uint64_t>({0x8012345678ABCDEF})) ==
        bytes_of<std::uint8_t>({0xEF, 0xCD, 0xAB, 0x78, 0x56, 0x34, 0x92, 0x00}));
  CHECK(split({4, false}, bytes_of<std::uint32_t>({0xBF812345, 1})) ==
        bytes_of<std::uint8_t>({0x45, 1, 0x23, 0, 0x81, 0, 0xBF, 0}));
}

TEST_CASE("Planes of any bytes, and any number of elements, are put together again") {
  testing::Random random(1);
  for (const std::uint8_t width : std::initializer_list<std::uint8_t>{1, 2, 4, 8}) {
    for (const bool is_float : {false, true}) {
      const ElementLayout layout{width, is_float};
      for (std::size_t n = 0; n < 150; ++n) {
        Bytes bytes(n * width);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
        CHECK(merge(layout, split(layout, bytes)) == bytes);
        CHECK(split(layout, merge(layout, bytes)) == bytes);
      }
    }
  }
}

TEST_CASE("Every pattern of 16 bits is put together again") {
  Bytes all(2u << 16);
  for (std::uint32_t i = 0; i < 1u << 16; ++i) {
    store_le(all.data() + 2 * i, static_cast<std::uint16_t>(i));
  }
  CHECK(merge({2, true}, split({2, true}, all)) == all);
}

}  // namespace
}  // namespace espalier
